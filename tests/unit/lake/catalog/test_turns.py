"""A turn keeps others from changing a table, for as long as its holder lives and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select

from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.commit import publish_commit
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.lease import this_host
from spark_trickle.lake.catalog.turns import Blocked, hold_turn
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.commit import Commit, TableChange
from spark_trickle.model.files import Role
from spark_trickle.model.table import Table
from tests.unit.lake.lakes import Lake, data_file

_names = (f"t{n}" for n in count())
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


@pytest.fixture
def table(lake: Lake) -> Iterator[Table]:
    yield lake.create(next(_names))
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(delete(s.trickle_turn))


def try_insert(lake: Lake, table: Table, ticket: int | None = None) -> Snapshot | object:
    base = lake.newest()
    change = TableChange(table, added=(data_file(),))
    commit = Commit(base.id, base.next_catalog_id, changes=(change,), ticket=ticket)
    return publish_commit(lake.warehouse.engine, lake.warehouse.folder, commit, datetime.now(UTC))


def queue_up(lake: Lake, table: Table, ticket: int, **others: Any) -> None:
    now = datetime.now(UTC)
    row = {"session_id": "s", "host": this_host(), "process_id": os.getpid(), "expires": now + MINUTE}
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(
            insert(s.trickle_turn).values(ticket=ticket, table_id=table.id, **{**row, **others})
        )


def tickets(lake: Lake) -> list[int]:
    with open_reader(lake.warehouse.engine) as connection:
        return sorted(connection.execute(select(s.trickle_turn.c.ticket)).scalars())


def test_others_wait_while_a_turn_is_held(lake: Lake, table: Table) -> None:
    other = lake.create(next(_names))
    with hold_turn(lake.warehouse, [table.id]) as ticket:
        assert try_insert(lake, table) == Blocked()
        assert try_insert(lake, table, ticket + 1) == Blocked()
        assert isinstance(try_insert(lake, table, ticket), Snapshot)
        assert isinstance(try_insert(lake, other), Snapshot)
    assert isinstance(try_insert(lake, table), Snapshot)
    assert tickets(lake) == []


def test_compaction_changes_no_rows_and_does_not_wait(lake: Lake, table: Table) -> None:
    base = lake.insert(table)
    with hold_turn(lake.warehouse, [table.id]):
        new = data_file(role=Role.BASE, as_of=base.id)
        lake.commit(TableChange(table, added=(new,), ended=lake.files(table)), at=base)


def test_first_come_first_served(lake: Lake, table: Table) -> None:
    """Whoever queues up while a turn is held gets it when it is given back."""
    with ThreadPoolExecutor(1) as pool:

        def insert_in_turn() -> Snapshot | object:
            with hold_turn(lake.warehouse, [table.id]) as mine:
                return try_insert(lake, table, mine)

        with hold_turn(lake.warehouse, [table.id]) as first:
            later = pool.submit(insert_in_turn)
            done = try_insert(lake, table, first)
        assert isinstance(done, Snapshot)
        after = later.result()
    assert isinstance(after, Snapshot)
    assert after.id > done.id


def test_a_dead_holder_keeps_nobody(lake: Lake, table: Table, dead_process: int) -> None:
    queue_up(lake, table, 1, process_id=dead_process)
    assert isinstance(try_insert(lake, table), Snapshot)
    assert tickets(lake) == []  # and the next commit need not ask about it


def test_a_silent_holder_elsewhere_keeps_nobody_for_long(lake: Lake, table: Table) -> None:
    queue_up(lake, table, 1, host="other/boot")
    assert try_insert(lake, table) == Blocked()
    queue_up(lake, table, 2, host="other/boot", expires=datetime.now(UTC) - MINUTE)
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(delete(s.trickle_turn).where(s.trickle_turn.c.ticket == 1))
    assert isinstance(try_insert(lake, table), Snapshot)


@pytest.mark.parametrize(("beside", "most"), [(False, 8), (True, 10)])
def test_a_small_commit_asks_the_catalog_little(lake: Lake, table: Table, beside: bool, most: int) -> None:
    """Also one beside others: what they did is learned from two questions."""
    base = lake.newest()
    if beside:
        lake.insert(table)
    asked: list[str] = []

    def note(_: Any, __: Any, statement: str, *others: Any) -> None:
        asked.append(statement)

    event.listen(lake.warehouse.engine, "before_cursor_execute", note)
    try:
        lake.insert(table, base)
    finally:
        event.remove(lake.warehouse.engine, "before_cursor_execute", note)
    assert len(asked) <= most, asked
