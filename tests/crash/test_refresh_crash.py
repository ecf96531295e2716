"""kill −9 in the middle of a refresh: the stream table is the old one or the new one, and goes on exactly."""

from __future__ import annotations

import signal

import pytest

from tests.conftest import Location, rows
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of

QUERIES = {
    "scan": "SELECT id, amount * 2 AS twice FROM account WHERE amount > 0",
    "sums": "SELECT city, sum(amount) AS s, min(amount) AS least FROM account GROUP BY city",
    "joined": "SELECT c.name, count(*) AS n FROM account a LEFT JOIN city c ON a.city = c.id GROUP BY c.name",
}
SETUP = (
    "CREATE TABLE city (id INT, name STRING, PRIMARY KEY (id))",
    "INSERT INTO city VALUES (1, 'one'), (2, 'two')",
    "CREATE TABLE account (id INT, city INT, amount INT, PRIMARY KEY (id))",
    "INSERT INTO account SELECT id, id % 3, id FROM range(40)",
    *(f"CREATE STREAM TABLE {name} AS {query}" for name, query in QUERIES.items()),
)
CHANGES = (
    "UPDATE account SET amount = amount + 100, city = 2 WHERE id % 7 = 0",
    "DELETE FROM account WHERE id IN (3, 4)",
    "INSERT INTO city VALUES (0, 'none')",
)
POINTS = ("before_data", "half_data", "after_data", "begin", "after_files", "before_commit", "after_commit")


@pytest.mark.one_in(7)
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_refresh(point: str, location: Location) -> None:
    with location.connect() as tr:
        shared = address_of(tr.spark)
        with start({**shared, "SPARK_TRICKLE_CRASH_POINT": point}) as child:
            for statement in (*SETUP, *CHANGES):
                tr.sql(statement)
            before, snapshot = {n: rows(tr.table(n)) for n in QUERIES}, tr.snapshot
            job = Job(location.path, location.data_path, ("REFRESH STREAM TABLE joined",))
            output = finish(child, job)
        assert child.returncode == -signal.SIGKILL, output
    with location.connect() as tr:
        committed = point == "after_commit"
        assert tr.snapshot == snapshot + committed
        assert (rows(tr.table("joined")) == before["joined"]) is not committed
        assert rows(tr.table("scan")) == before["scan"]
        reports = {r.name: r.action for r in tr.refresh_all()}
        assert (reports["main.joined"] == "NO_DATA") is committed
        assert set(reports.values()) <= {"DIFFERENTIAL", "NO_DATA"}
        for name, query in QUERIES.items():
            assert rows(tr.table(name)) == rows(tr.sql(query))
            assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").count() == 0
        done = [h for h in tr.answer("refresh_history", "joined").dicts() if h["action"] == "DIFFERENTIAL"]
        assert len(done) == 1  # noted once, whichever process did it
