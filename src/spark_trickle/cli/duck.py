"""A warehouse folder -> the statements that open it in DuckDB, and DuckDB's answer where it is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from spark_trickle.cli.show import QueryResult

_EXTENSIONS = ("sqlite_scanner", "ducklake")


def attach_sql(warehouse: Path) -> str:
    catalog = str(warehouse / "catalog.sqlite").replace("'", "''")
    return f"ATTACH 'ducklake:sqlite:{catalog}' AS lake (READ_ONLY)"


def ask_duckdb(warehouse: Path, query: str) -> QueryResult | None:
    """DuckDB's rows; None without DuckDB and the wheels of its extensions (nothing is downloaded)."""
    files = [_extension_file(name) for name in _EXTENSIONS]
    if find_spec("duckdb") is None or None in files:
        return None
    duckdb = import_module("duckdb")
    with duckdb.connect() as connection:
        for file in files:
            connection.execute(f"LOAD '{file}'")
        connection.execute(attach_sql(warehouse))
        found = connection.execute(query)
        columns, types = zip(*((d[0], str(d[1]).lower()) for d in found.description), strict=True)
        return QueryResult(columns, types, tuple(found.fetchall()))


def _extension_file(name: str) -> Path | None:
    """Where the wheel duckdb-extension-… put its file."""
    for folder in map(Path, sys.path):
        for file in folder.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"):
            return file
    return None
