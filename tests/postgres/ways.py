"""A table and statements -> its rows as they arrive by both ways to copy, both kinds of trigger, and from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_trickle.sources.postgres.assemble import Followed
from spark_trickle.sources.postgres.buffer import Position, open_reading, read_changes, read_moment
from spark_trickle.sources.postgres.capture import plan_capture
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.install import install_capture, uninstall_capture
from spark_trickle.sources.postgres.parallel import SharedRead, plan_shared_read
from spark_trickle.sources.postgres.publication import drop_publication, publish_tables
from spark_trickle.sources.postgres.slot import create_slot, drop_slot
from spark_trickle.sources.postgres.types import MappedColumn
from spark_trickle.sources.postgres.values import parse_weights, to_table
from spark_trickle.sources.postgres.wal import peek_changes
from tests.postgres.world import World, mapped, table_of


def both_ways(world: World, name: str, statements: list[str], **options: Any) -> dict[str, pa.Table]:
    """The statements only insert; they are run once for each way, on the emptied table."""
    connection = world.connect()
    table = table_of(connection, name)
    columns = mapped(table, **options)
    arrived: dict[str, pa.Table] = {}
    if statements:
        for mode in ("statement", "row"):
            capture = plan_capture(table, mode=mode)  # type: ignore[arg-type]
            token = install_capture(connection, capture)
            with open_reading(connection):
                start = Position(token, read_moment(connection))
            world.run(*statements)
            with open_reading(connection):
                arrived[mode] = pa.concat_tables(read_changes(connection, capture, columns, start))
            uninstall_capture(connection, capture)
            world.run(f"TRUNCATE {name}")
        marks = publish_tables(connection, "p", [table])
        after = create_slot(connection, "slot")
        world.run(*statements)
        (change,) = peek_changes(
            connection, "slot", "p", [Followed(table, columns, marks[table.oid])], after
        ).tables
        arrived["log"] = change.rows
        drop_slot(connection, "slot")
        drop_publication(connection, "p")
    with open_snapshot(connection, [table]):
        arrived["copy"] = pa.concat_tables(copy_rows(connection, table, columns))
        arrived["side by side"] = _side_by_side(
            world, plan_shared_read(connection, table, columns, 10), columns
        )
    return arrived


def _side_by_side(world: World, read: SharedRead, columns: Sequence[MappedColumn]) -> pa.Table:
    """What executors would do, one query after the other; while the moment of the queries is held."""
    task = world.application()
    with task.transaction():
        task.execute(read.setup)
        rows = [row for query in read.queries for row in task.execute(query).fetchall()]
    texts = [pa.array([row[n] for row in rows], pa.string()) for n in range(len(columns))]
    return to_table(columns, texts, parse_weights([1] * len(rows)))
