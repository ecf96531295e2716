"""A long buffer -> a shorter one that means the same: a row that came and went again is two rows less."""

from __future__ import annotations

from psycopg import sql

from spark_trickle.sources.postgres.buffer import Position, claim_buffers, forget_changes
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.run import Statement, begin_transaction, run_statements


def compact_buffer(connection: Connection, capture: Capture, consumed: Position) -> int:
    """Cancel I and D rows of the same image; how many rows went.

    `consumed` is what the mirror has committed. Call it between such a commit and the next reading: all rows
    that are left then will be read together, so only their sum counts. Hence the claim.
    """
    claim_buffers(connection, capture.schema)
    with begin_transaction(connection):
        return forget_changes(connection, capture, consumed) + run_statements(
            connection, _compose_cancel(capture)
        )


def _compose_cancel(capture: Capture) -> Statement:
    """The nth I row of an image cancels its nth D row, in whatever order they were written."""
    fields = sql.SQL(", ").join(sql.Identifier("b", name) for name in capture.buffer_names)
    return sql.SQL("""
        WITH waiting AS (
            SELECT b.ctid AS place, b.action, sha256(convert_to(ROW({fields})::text, 'UTF8')) AS image
            FROM {buffer} AS b),
        numbered AS (
            SELECT place, action, image, row_number() OVER (PARTITION BY image, action) AS n FROM waiting),
        pairs AS (
            SELECT i.place AS came, d.place AS went FROM numbered AS i JOIN numbered AS d USING (image, n)
            WHERE i.action = 'I' AND d.action = 'D')
        DELETE FROM {buffer}
        WHERE ctid IN (SELECT came FROM pairs UNION ALL SELECT went FROM pairs)
    """).format(fields=fields, buffer=capture.buffer)
