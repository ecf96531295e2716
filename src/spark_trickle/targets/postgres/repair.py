"""All rows of a snapshot -> the published table has exactly these, and only what differed was touched."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.postgres import rows
from spark_trickle.targets.postgres.apply import open_entry
from spark_trickle.targets.postgres.ledger import Applied, note
from spark_trickle.targets.postgres.run import changing, execute
from spark_trickle.targets.postgres.target import Target, fields, grouping_key, stored

WANTED = "trickle_wanted"


def repair(
    connection: Connection,
    target: Target,
    snapshot: int,
    wanted: Iterable[pa.Table],
    lock_seconds: float = 30.0,
    mark: str = "",
) -> Applied:
    """Bring the table to these rows, whatever it holds and wherever it is; also back to an older snapshot."""
    with changing(connection, target.full_name, lock_seconds):
        open_entry(connection, target)
        rows.lock(connection, target)
        held = rows.load(connection, target, WANTED, wanted)
        gone = _differing(connection, target, rows.DELETED, sql.SQL("-"))
        come = _differing(connection, target, rows.INSERTED, sql.SQL(""))
        rows.change(connection, target, gone, come)
        rows.analyze(connection, target)
        done = Applied(True, snapshot, come, gone)
        note(connection, target, held, done, mark)
        return done


def _differing(connection: Connection, target: Target, name: str, sign: sql.SQL) -> int:
    """Rows that are more often on one side, as often as they are too many; NULLs are the same here."""
    rows.make(connection, target, name)
    query = sql.SQL(
        "INSERT INTO {into} ({columns}) SELECT {columns} FROM ("
        "SELECT {columns}, {sign} sum(d.side) AS copies FROM ("
        "SELECT {wanted}, 1 AS side FROM {held} AS w UNION ALL SELECT {found}, -1 FROM {table} AS t"
        ") AS d ({columns}, side) GROUP BY {grouping} HAVING {sign} sum(d.side) > 0"
        ") AS d, generate_series(1, d.copies)"
    ).format(
        into=rows.temporary(name),
        columns=rows.own_columns(target),
        sign=sign,
        wanted=stored(target, "w"),
        held=rows.temporary(WANTED),
        found=fields(target, "t"),
        table=target.sql,
        grouping=grouping_key(target, "d"),
    )
    found = execute(connection, query).rowcount
    rows.know(connection, name)
    return found
