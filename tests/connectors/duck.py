"""DuckDB with the extensions that read and write lakes, and the REST catalog through which it writes to Iceberg."""

from __future__ import annotations

import os
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from spark_trickle.session import Trickle

HOME = Path(__file__).parents[2] / ".connectors"
JARS = HOME / "iceberg"


def is_installed() -> bool:
    return any(_list_extensions()) and any(JARS.glob("iceberg-open-api-*.jar"))


def open_duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in _list_extensions():
        connection.execute(f"LOAD '{extension}'")
    return connection


def _list_extensions() -> list[Path]:
    """The others need httpfs and avro."""
    found = HOME.glob("lib/python3*/site-packages/duckdb_extension_*/**/*.duckdb_extension")
    return sorted(found, key=lambda path: (path.stem in ("iceberg", "delta"), path.stem))


def count_rows(duck: duckdb.DuckDBPyConnection, scan: str) -> Counter[tuple[Any, ...]]:
    """What DuckDB reads of a table, as far as it has the columns that the official writers of the tests give it."""
    query = 'SELECT id, region, amount, epoch_us("at"), list_transform(tags, x -> x.v), place.y FROM'
    return Counter((*row[:4], repr(row[4]), row[5]) for row in duck.execute(f"{query} {scan}").fetchall())


def count_ours(tr: Trickle, table: str) -> Counter[tuple[Any, ...]]:
    """The same of what we read."""
    query = "SELECT id, region, amount, unix_micros(at), transform(tags, x -> x.v), place.y FROM"
    return Counter((*row[:4], repr(row[4]), row[5]) for row in tr.sql(f"{query} {table}").collect())


@dataclass(frozen=True)
class RestCatalog:
    """The catalog that Iceberg's developers test clients with, as a process."""

    uri: str

    def attach(self, duck: duckdb.DuckDBPyConnection, name: str) -> None:
        duck.execute(f"ATTACH '' AS {name} (TYPE iceberg, ENDPOINT '{self.uri}', AUTHORIZATION_TYPE 'none')")


@contextmanager
def run_rest_catalog(folder: Path) -> Iterator[RestCatalog]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hadoop = sorted(HOME.glob("lib/python3*/site-packages/pyspark/jars/hadoop-client-*.jar"))
    given = {
        "CATALOG_WAREHOUSE": str(folder / "tables"),
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_REST_PORT": str(port),
    }
    command: list[Any] = ["java", "-Xmx256m", "-cp", ":".join([f"{JARS}/*", *map(str, hadoop)])]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **given},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        uri = f"http://127.0.0.1:{port}"
        with requests.Session() as session:
            session.mount(uri, HTTPAdapter(max_retries=Retry(connect=60, backoff_factor=0.1, backoff_max=1)))
            session.get(f"{uri}/v1/config", timeout=60).raise_for_status()
        yield RestCatalog(uri)
    finally:
        process.terminate()
        process.wait(60)
