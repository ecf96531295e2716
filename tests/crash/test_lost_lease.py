"""A session that slept too long, so that VACUUM elsewhere took what it needs, hears of it: no wrong rows, no lost ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from spark_trickle import errors as e
from spark_trickle.lake import schema as s
from spark_trickle.lake.engine import open_engine, writing
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import check_text

ROWS = [(1, "a"), (2, "b")]
CHURN = ("UPDATE t SET name = 'new'", "OPTIMIZE t", "VACUUM RETAIN 0 HOURS")


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(str(tmp_path / "warehouse"), None)


@pytest.fixture
def sleeper(location: Location) -> Iterator[Trickle]:
    with location.connect() as tr:
        tr.sql("CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield tr


def expire_leases(location: Location) -> None:
    """As if every session so far ran on another machine and was last heard of long ago."""
    engine = open_engine(f"sqlite:///{location.path}/catalog.sqlite", 60)
    with writing(engine) as connection:
        long_ago = datetime(2000, 1, 1, tzinfo=UTC)
        connection.execute(update(s.trickle_lease).values(host="elsewhere", expires=long_ago))
    engine.dispose()


def meanwhile(location: Location) -> None:
    expire_leases(location)
    with location.connect() as other:
        for statement in CHURN:
            other.sql(statement)


READS = {
    "a query": "SELECT * FROM t",
    "a count": "SELECT count(*) FROM t",
    "an old version": "SELECT * FROM t VERSION AS OF 2",
    "the feed": "SELECT * FROM trickle.changes('t', 0, 2)",
}


@pytest.mark.parametrize("name", READS)
def test_a_snapshot_that_is_gone_is_not_an_empty_table(
    name: str, location: Location, sleeper: Trickle
) -> None:
    sleeper.sql("BEGIN")
    meanwhile(location)
    with pytest.raises(e.TrickleError) as caught:
        sleeper.sql(READS[name]).collect()
    check_text(caught.value, (e.SnapshotNotFoundError, e.ConflictError))
    sleeper.sql("ROLLBACK")
    assert rows(sleeper.table("t")) == [(1, "new"), (2, "new")]


WRITES = (
    "INSERT INTO t VALUES (3, 'c')",
    "UPDATE t SET name = 'mine'",
    "DELETE FROM t WHERE id = 1",
    "TRUNCATE TABLE t",
    "CREATE TABLE copied AS SELECT * FROM t",
)


@pytest.mark.parametrize("statement", WRITES)
def test_a_commit_whose_files_were_taken_for_orphans(
    statement: str, location: Location, sleeper: Trickle
) -> None:
    """Its writer seemed to be dead, so VACUUM removed the files: the commit must fail, not point at nothing."""
    sleeper.sql("BEGIN")
    sleeper.sql(statement)
    expire_leases(location)
    with location.connect() as other:
        other.sql("VACUUM RETAIN 0 HOURS")
    with pytest.raises(e.TrickleError) as caught:
        sleeper.sql("COMMIT")
    check_text(caught.value, e.ConflictError)
    assert caught.value.retryable
    assert rows(sleeper.table("t")) == ROWS
    sleeper.sql(statement)
    with location.connect() as other:
        assert other.table("t").collect() == sleeper.table("t").collect()
