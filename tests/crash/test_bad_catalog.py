"""A catalog that is locked, broken or out of reach gives a clear error and loses nothing."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import spark_trickle
from spark_trickle import errors as e
from spark_trickle.lake.catalog.engine import open_engine, open_writer
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import check_refused, check_text
from tests.crash.witness import files_on_disk

pytestmark = pytest.mark.both_catalogs

IMPATIENT = {"catalog_timeout": 0.2}


@contextmanager
def locked(location: Location) -> Iterator[None]:
    """Another writer is in the middle of its commit."""
    if location.is_postgres:
        other = open_engine(location.path, 60)
        with open_writer(other):
            yield
        other.dispose()
        return
    connection = sqlite3.connect(f"{location.path}/catalog.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


def fill(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")


@pytest.mark.one_in(2)
def test_a_locked_catalog(location: Location) -> None:
    with location.connect(settings=IMPATIENT) as tr:
        fill(tr)
        with locked(location):
            assert rows(tr.table("t")) == [(1, "a"), (2, "b")]
            for statement in (
                "INSERT INTO t VALUES (3, 'c')",
                "UPDATE t SET name = 'x'",
                "TRUNCATE TABLE t",
                "CREATE TABLE x AS SELECT * FROM t",
                "DROP TABLE t",
                "VACUUM",
            ):
                error = check_refused(
                    tr, location, lambda sql=statement: tr.sql(sql), e.CatalogBusyError, "0.2 seconds"
                )
                assert error.retryable

            def transaction() -> None:
                with tr.transaction():
                    tr.sql("INSERT INTO t VALUES (3, 'c')")
                    tr.sql("UPDATE t SET name = 'x'")

            check_refused(tr, location, transaction, e.CatalogBusyError)
        tr.sql("INSERT INTO t VALUES (3, 'c')")
        assert rows(tr.table("t")) == [(1, "a"), (2, "b"), (3, "c")]


def test_leaving_a_locked_catalog(location: Location) -> None:
    """What went wrong inside is what the user hears of, not that the connection could not say goodbye."""
    with location.connect() as tr:
        fill(tr)
    with (
        locked(location),
        pytest.raises(e.CatalogBusyError, match=r"0\.2 seconds"),
        location.connect(settings=IMPATIENT) as tr,
    ):
        tr.sql("INSERT INTO t VALUES (3, 'c')")
    tr = location.connect(settings=IMPATIENT)
    assert tr.snapshot == 2
    with locked(location):
        tr.close()


BROKEN: dict[str, Callable[[Path], object]] = {
    "text": lambda p: p.write_bytes(b"this is not a database\n" * 100),
    "only a header": lambda p: p.write_bytes(b"SQLite format 3\0" + b"x" * 5000),
    "a folder": lambda p: (p.unlink(), p.mkdir()),
    "overwritten": lambda p: p.write_bytes(p.read_bytes()[:4096] + b"\xa5" * 40000 + p.read_bytes()[44096:]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_catalog(how: str, tmp_path: Path) -> None:
    location = Location(str(tmp_path / "warehouse"), None)
    with location.connect() as tr:
        fill(tr)
    catalog = tmp_path / "warehouse" / "catalog.sqlite"
    backup, data = catalog.read_bytes(), files_on_disk(location)
    BROKEN[how](catalog)
    broken = catalog.read_bytes() if catalog.is_file() else b""
    with pytest.raises(e.TrickleError) as caught, location.connect() as tr:
        tr.sql("INSERT INTO t VALUES (3, 'c')")
    check_text(caught.value, e.WarehouseError, "catalog.sqlite")
    assert files_on_disk(location) == data
    if catalog.is_file():
        assert catalog.read_bytes() == broken
    else:
        catalog.rmdir()
    catalog.write_bytes(backup)
    with location.connect() as tr:
        assert rows(tr.table("t")) == [(1, "a"), (2, "b")]


SECRET = "s3cret"
ADDRESSES = [
    (f"postgresql://joe:{SECRET}@127.0.0.1:1/db", "127.0.0.1"),
    (f"postgresql://joe@127.0.0.1:1/db?password={SECRET}", "127.0.0.1"),
    (f"postgresql://joe:{SECRET}@no-such-host.invalid/db", "no-such-host.invalid"),
    (f"postgresql://joe:{SECRET}@127.0.0.1:port/db", "address"),
    (f"postgresql://joe:{SECRET}@127.0.0.1:1/db?nonsense=1", "nonsense"),
    (f"postgresql:///db?host=/nowhere&password={SECRET}", "/nowhere"),
    (f"mysql://joe:{SECRET}@localhost/db", "mysql"),
    (f"://joe:{SECRET}@localhost", "address"),
    (f"nonsense://joe:{SECRET}@localhost/db", "nonsense"),
]


@pytest.mark.parametrize(("address", "words"), ADDRESSES)
def test_an_address_that_leads_nowhere(address: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(e.TrickleError) as caught:
        spark_trickle.connect(address, data_path=str(tmp_path / "data"))
    check_text(caught.value, e.WarehouseError, words)
    seen = [repr(caught.value), *traceback.format_exception(caught.value)]
    assert SECRET not in "".join(line for line in seen if "spark_trickle.connect" not in line)
    assert not (tmp_path / "data").exists()


def test_a_password_is_never_shown(postgres_server: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS secretive")
        connection.execute("CREATE DATABASE secretive")
    at = postgres_server.replace("/postgres?", "/secretive?")
    for address in (at.replace("postgres:@", f"postgres:{SECRET}@"), f"{at}&password={SECRET}"):
        assert SECRET in address
        with spark_trickle.connect(address, data_path=str(tmp_path / "data")) as tr:
            tr.sql("CREATE TABLE IF NOT EXISTS t (id INT)")
            place: Any = tr._connection.place
            seen = (tr.catalog_url, repr(tr), str(tr), repr(place), repr(place.warehouse))
            assert not [text for text in seen if SECRET in text]


def test_a_server_that_goes_away(postgres_server: str, tmp_path: Path) -> None:
    """The connection is cut under a session: the next statement finds a new one."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS fading")
        connection.execute("CREATE DATABASE fading")
        address = postgres_server.replace("/postgres?", "/fading?")
        with spark_trickle.connect(address, data_path=str(tmp_path / "data")) as tr:
            fill(tr)
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fading'"
            assert connection.execute(cut).fetchall()
            tr.sql("INSERT INTO t VALUES (3, 'c')")
            assert connection.execute(cut).fetchall()
            assert rows(tr.table("t")) == [(1, "a"), (2, "b"), (3, "c")]


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"nope": 1}, "nope commit_retries"),
    ({"commit_retrys": 1}, 'Did you mean "commit_retries"?'),
    ({"commit_retries": "many"}, "many"),
    ({"commit_retries": -1}, "-1"),
    ({"commit_retries": 1.5}, "1.5"),
    ({"auto_compact": "perhaps"}, "perhaps"),
    ({"auto_compact": 1}, "bool"),
    ({"catalog_timeout": 0}, "0"),
    ({"catalog_timeout": None}, "None"),
    ({"catalog_timeout": float("nan")}, "nan"),
    ({"reader_lease_minutes": 1e30}, "1e+30"),
    ({"compression": "brotli"}, "brotli zstd"),
]


@pytest.mark.parametrize(("settings", "words"), SETTINGS)
def test_settings_that_make_no_sense(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with (
        pytest.raises(e.TrickleError) as caught,
        spark_trickle.connect(tmp_path / "w", settings=settings) as tr,
    ):
        assert tr.snapshot == 0
    check_text(caught.value, e.SettingError, words)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in ("file", "file/below"):
        with pytest.raises(e.TrickleError) as caught:
            spark_trickle.connect(tmp_path / path)
        check_text(caught.value, e.WarehouseError, "file")
    assert (tmp_path / "file").read_text() == "mine"


CLOSED: dict[str, Callable[[Trickle], object]] = {
    "a query": lambda tr: tr.sql("SELECT * FROM t"),
    "INSERT": lambda tr: tr.sql("INSERT INTO t VALUES (3, 'c')"),
    "BEGIN": lambda tr: tr.sql("BEGIN"),
    "COMMIT": lambda tr: tr.sql("COMMIT"),
    "SET": lambda tr: tr.sql("SET trickle.auto_compact = false"),
    "SHOW": lambda tr: tr.sql("SHOW TABLES"),
    "VACUUM": lambda tr: tr.sql("VACUUM"),
    "OPTIMIZE": lambda tr: tr.sql("OPTIMIZE t"),
    "table": lambda tr: tr.table("t"),
    "changes": lambda tr: tr.changes("t", after=0),
    "snapshot": lambda tr: tr.snapshot,
    "append": lambda tr: tr.append("t", tr.spark.sql("SELECT 3L AS id, 'c' AS name")),
    "transaction": lambda tr: tr.transaction().__enter__(),
}


def test_a_closed_connection(tmp_path: Path) -> None:
    location = Location(str(tmp_path / "warehouse"), None)
    with location.connect() as other:
        fill(other)
        tr = location.connect()
        tr.sql("BEGIN")
        tr.sql("INSERT INTO t VALUES (3, 'c')")
        tr.close()
        tr.close()
        for use in CLOSED.values():
            check_refused(other, location, lambda use=use: use(tr), e.TransactionStateError, "connect")
        assert rows(other.table("t")) == [(1, "a"), (2, "b")]
