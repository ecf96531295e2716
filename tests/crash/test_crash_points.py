"""kill −9 at every step leaves the old snapshot or the new one, and orphans that VACUUM removes."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.lake.storage.crashpoint import CRASH_POINTS
from spark_trickle.session import Trickle
from tests.conftest import DuckQuery, Location
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of
from tests.crash.witness import (
    State,
    bag,
    data_folder,
    feed_sum,
    files_of_tables,
    files_on_disk,
    ordered,
    state,
    without_checksums,
)

SETUP = (
    "CREATE TABLE account (id BIGINT, amount INT, PRIMARY KEY (id))",
    "CREATE TABLE log (line STRING, n INT)",
    "INSERT INTO account VALUES (1, 10), (2, 20), (3, 30)",
    "UPDATE account SET amount = 11 WHERE id = 1",
    "OPTIMIZE account",
    "INSERT INTO log VALUES ('a', 1), ('a', 1), ('b', 2)",
    "DELETE FROM account WHERE id = 3",
)
ACCOUNT, LOG = [(1, 11), (2, 20)], [("a", 1), ("a", 1), ("b", 2)]


@dataclass(frozen=True)
class Statements:
    """What the child runs, and the tables it changes if it succeeds."""

    sql: tuple[str, ...]
    changed: dict[str, list[tuple[Any, ...]]]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def new(self) -> dict[str, list[tuple[Any, ...]]]:
        tables = {"account": ACCOUNT, "log": LOG, **self.changed}
        return {name: sorted(found, key=repr) for name, found in tables.items()}


BY_EXECUTORS = {"max_driver_rows": 1}
STATEMENTS = {
    "insert": Statements(("INSERT INTO account VALUES (4, 40)",), {"account": [*ACCOUNT, (4, 40)]}),
    "insert by executors": Statements(
        ("INSERT INTO log SELECT concat('x', id), amount FROM account",),
        {"log": [*LOG, ("x1", 11), ("x2", 20)]},
        BY_EXECUTORS,
    ),
    "update": Statements(
        ("UPDATE account SET amount = amount + 1",),
        {"account": [(1, 12), (2, 21)]},
    ),
    "delete": Statements(("DELETE FROM log WHERE line = 'a'",), {"log": [("b", 2)]}),
    "merge": Statements(
        (
            "MERGE INTO account USING (SELECT * FROM VALUES (2, 0), (5, 50) AS s(id, amount)) AS s "
            "ON account.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        ),
        {"account": [(1, 11), (5, 50)]},
    ),
    "overwrite": Statements(("INSERT OVERWRITE log VALUES ('z', 9)",), {"log": [("z", 9)]}),
    "create as": Statements(
        ("CREATE TABLE copied AS SELECT * FROM account",),
        {"copied": ACCOUNT},
    ),
    "transaction": Statements(
        (
            "BEGIN",
            "UPDATE account SET amount = amount - 5 WHERE id = 1",
            "INSERT INTO log VALUES ('moved', 5)",
            "UPDATE account SET amount = amount + 5 WHERE id = 2",
            "COMMIT",
        ),
        {"account": [(1, 6), (2, 25)], "log": [*LOG, ("moved", 5)]},
    ),
    "optimize": Statements(("OPTIMIZE account",), {}),
    "vacuum": Statements(("VACUUM RETAIN 0 HOURS",), {}),
}
# The statement that `make test` kills at each point; the slow tests kill every statement that passes there.
KILLED = {
    "before_data": "update",
    "half_data": "insert",
    "after_data": "insert by executors",
    "begin": "merge",
    "after_snapshot_row": "transaction",
    "after_definitions": "create as",
    "after_files": "overwrite",
    "before_commit": "optimize",
    "after_commit": "delete",
    "vacuum_after_forget": "vacuum",
    "vacuum_half_deleted": "vacuum",
}
ELSEWHERE = {  # tests/sources and tests/unit/lake/storage/test_backup.py kill there
    "after_landing",
    "before_target_commit",
    "after_target_commit",
    "backup_catalog",
    "backup_files",
}
IN_THE_CATALOG = ("after_snapshot_row", "after_definitions", "before_commit", "after_commit")
LEAVES_ORPHANS = {"half_data", "after_data", "begin", "after_files", "before_commit"}
NEVER_THERE = {("half_data", "insert by executors")}
OTHERS = [
    (point, name)
    for point in CRASH_POINTS
    for name in STATEMENTS
    if point not in ELSEWHERE
    and point.startswith("vacuum") == (name == "vacuum")
    and KILLED.get(point) != name
    and (point, name) not in NEVER_THERE
]


def test_every_crash_point_has_a_statement_and_a_place() -> None:
    source = Path(spark_trickle.__file__).parent
    called = {
        name for p in source.rglob("*.py") for name in re.findall(r'crash_point\("(\w+)"\)', p.read_text())
    }
    assert called == set(CRASH_POINTS) == {*KILLED, *ELSEWHERE}


@pytest.mark.one_in(14)
@pytest.mark.parametrize(
    ("point", "name"),
    [
        pytest.param(point, name, marks=[pytest.mark.both_catalogs] if point in IN_THE_CATALOG else [])
        for point, name in KILLED.items()
    ],
)
def test_a_killed_process(point: str, name: str, location: Location, duck: DuckQuery) -> None:
    check_crash(point, STATEMENTS[name], location, duck)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "name"), OTHERS)
def test_every_other_statement(point: str, name: str, location: Location, duck: DuckQuery) -> None:
    check_crash(point, STATEMENTS[name], location, duck)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "name"), KILLED.items())
def test_a_process_with_its_own_jvm(point: str, name: str, location: Location, duck: DuckQuery) -> None:
    check_crash(point, STATEMENTS[name], location, duck, own_jvm=True)


def check_crash(
    point: str, statements: Statements, location: Location, duck: DuckQuery, own_jvm: bool = False
) -> None:
    job = Job(location.path, location.data_path, statements.sql, statements.settings)
    with location.connect() as tr:
        shared = {} if own_jvm else address_of(tr.spark)
    with start({**shared, "SPARK_TRICKLE_CRASH_POINT": point}) as child:
        before = prepare(location)  # while the child starts up
        disk_before = set(files_on_disk(location))
        output = finish(child, job)
    assert child.returncode == -signal.SIGKILL, output
    with location.connect() as tr:
        after = state(tr)
        check_state(tr, duck, before, after, statements, committed=point == "after_commit")
        orphans = set(files_on_disk(location)) - disk_before
        if point in LEAVES_ORPHANS:
            assert orphans, "the crash left nothing behind, so it was not where it says"
        go_on(tr, statements, after)
        tr.sql("SET trickle.orphan_hours = 0")
        tr.sql("VACUUM RETAIN 0 HOURS")
        kept = set(files_on_disk(location))
        assert without_checksums(kept) == files_of_tables(tr, location)
        assert point == "after_commit" or not orphans & kept
        assert not list(data_folder(location).glob("_trickle/*.draft"))


def prepare(location: Location) -> State:
    with location.connect() as tr:
        for statement in SETUP:
            tr.sql(statement)
        return state(tr)


def check_state(
    tr: Trickle, duck: DuckQuery, before: State, after: State, statements: Statements, committed: bool
) -> None:
    assert before.tables == {"account": ACCOUNT, "log": LOG}
    assert after.tables == (statements.new if committed else before.tables)
    assert after.snapshot == before.snapshot + committed
    for name, found in after.tables.items():
        assert bag(duck(f"SELECT * FROM lake.{name}")) == bag(found)
        difference = bag(found)
        difference.subtract(bag(before.tables.get(name, [])))
        assert feed_sum(tr, name, before.snapshot, after.snapshot) == ordered(difference)


def go_on(tr: Trickle, statements: Statements, after: State) -> None:
    """The statements work now if the crash came before their commit, and another if it came after."""
    if after.tables == statements.new:
        tr.sql("INSERT INTO account VALUES (9, 90)")
        assert (9, 90) in state(tr).tables["account"]
    else:
        for statement in statements.sql:
            tr.sql(statement)
        assert state(tr).tables == statements.new
