"""All rows of a snapshot -> the published table has exactly these, and only what differed was touched."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.interface import Applied
from spark_trickle.targets.postgres import rows
from spark_trickle.targets.postgres.apply import open_entry
from spark_trickle.targets.postgres.ledger import note_change
from spark_trickle.targets.postgres.run import begin_change, execute_statement
from spark_trickle.targets.postgres.target import (
    Target,
    compose_grouping_key,
    list_fields,
    list_stored_fields,
)

WANTED = "trickle_wanted"


def repair_rows(
    connection: Connection,
    target: Target,
    snapshot: int,
    wanted: Iterable[pa.Table],
    lock_seconds: float = 30.0,
    mark: str = "",
) -> Applied:
    """Bring the table to these rows, whatever it holds and wherever it is; also back to an older snapshot."""
    with begin_change(connection, target.full_name, lock_seconds):
        open_entry(connection, target)
        rows.lock_target(connection, target)
        held = rows.load_rows(connection, target, WANTED, wanted)
        gone = _select_differing(connection, target, rows.DELETED, sql.SQL("-"))
        come = _select_differing(connection, target, rows.INSERTED, sql.SQL(""))
        rows.change_rows(connection, target, gone, come)
        rows.analyze_target(connection, target)
        done = Applied(True, snapshot, come, gone)
        note_change(connection, target, held, done, mark)
        return done


def _select_differing(connection: Connection, target: Target, name: str, sign: sql.SQL) -> int:
    """Rows that are more often on one side, as often as they are too many; NULLs are the same here."""
    rows.make_temporary(connection, target, name)
    query = sql.SQL(
        "INSERT INTO {into} ({columns}) SELECT {columns} FROM ("
        "SELECT {columns}, {sign} sum(d.side) AS copies FROM ("
        "SELECT {wanted}, 1 AS side FROM {held} AS w UNION ALL SELECT {found}, -1 FROM {table} AS t"
        ") AS d ({columns}, side) GROUP BY {grouping} HAVING {sign} sum(d.side) > 0"
        ") AS d, generate_series(1, d.copies)"
    ).format(
        into=rows.name_temporary(name),
        columns=rows.list_own_columns(target),
        sign=sign,
        wanted=list_stored_fields(target, "w"),
        held=rows.name_temporary(WANTED),
        found=list_fields(target, "t"),
        table=target.sql,
        grouping=compose_grouping_key(target, "d"),
    )
    found = execute_statement(connection, query).rowcount
    rows.analyze_temporary(connection, name)
    return found
