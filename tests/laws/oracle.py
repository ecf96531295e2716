"""The same statements on a plain table in DuckDB: what the warehouse must hold, answer and refuse."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from spark_trickle.errors import (
    DuplicateKeyError,
    MergeCardinalityError,
    NotNullViolationError,
    TrickleError,
)
from tests.laws.history import TABLE, TOUCHED, Shape, Statement
from tests.laws.values import cell, joined, name, sql

Row = tuple[str, ...]
Bag = Counter[Row]


def bag_of(rows: pa.Table) -> Bag:
    """Rows with how often each occurs; texts, so that NaN equals itself and −0.0 differs from 0.0."""
    columns = [[cell(v) for v in column.to_pylist()] for column in rows.columns]
    return Counter(zip(*columns, strict=True))


@dataclass(frozen=True)
class Outcome:
    """Rows inserted, updated and deleted, or the errors of which one is due."""

    counts: tuple[int, int, int] = (0, 0, 0)
    refused: tuple[type[TrickleError], ...] = ()


class Oracle:
    def __init__(self, shape: Shape) -> None:
        self._duck = duckdb.connect()
        self._numbers = itertools.count()
        self._duck.execute(shape.create.duck)

    def close(self) -> None:
        self._duck.close()

    def bag(self, table: str = TABLE) -> Bag:
        return bag_of(self._duck.execute(f"SELECT * EXCLUDE ({TOUCHED}) FROM {table}").to_arrow_table())

    def save(self) -> str:
        """Keep the table as it is under another name."""
        kept = f"kept_{next(self._numbers)}"
        self._duck.execute(f"CREATE TABLE {kept} AS SELECT * FROM {TABLE}")
        return kept

    def restore(self, kept: str) -> None:
        self._duck.execute(f"CREATE OR REPLACE TABLE {TABLE} AS SELECT * FROM {kept}")

    @contextmanager
    def as_it_was(self, kept: str) -> Iterator[None]:
        """The table is an old one for a while."""
        now = self.save()
        self.restore(kept)
        yield
        self.restore(now)

    def run(self, statement: Statement) -> Outcome:
        """Run a statement; one that must be refused leaves nothing."""
        if statement.hits and self._duck.execute(statement.hits).fetchall():
            return Outcome(refused=(MergeCardinalityError,))
        kept = self.save()
        counts = self._execute(statement)
        refused = () if statement.defines else tuple(self._violations(statement.shape))
        if refused:
            self.restore(kept)
        return Outcome(refused=refused) if refused else Outcome(counts)

    def define(self, text: str) -> None:
        self._duck.execute(text)

    def _execute(self, statement: Statement) -> tuple[int, int, int]:
        parts = self._duck.extract_statements(statement.text.duck)
        answers = [self._duck.execute(part).fetchall() for part in parts]
        match statement.kind:
            case "merge":
                done = Counter(a for (a,) in answers[-1])
                return done["INSERT"], done["UPDATE"], done["DELETE"]
            case "insert" | "insert_select":
                return answers[-1][0][0], 0, 0
            case "overwrite":
                return answers[-1][0][0], 0, answers[-2][0][0]
            case "update" | "update_key":
                return 0, answers[-1][0][0], 0
            case "delete" | "truncate":
                return 0, 0, answers[-1][0][0]
        return 0, 0, 0

    def _violations(self, shape: Shape) -> Iterator[type[TrickleError]]:
        """Plain tables without constraints, asked afterwards: an UPDATE may pass through duplicates."""
        for column in shape.required:
            if self._duck.execute(f"SELECT 1 FROM {TABLE} WHERE {name(column).duck} IS NULL").fetchone():
                yield NotNullViolationError
        if shape.unique:
            keys = joined([name(i) for i in shape.ids])
            text = sql(f"SELECT 1 FROM {TABLE} GROUP BY {{}} HAVING count(*) > 1", keys)
            if self._duck.execute(text.duck).fetchone():
                yield DuplicateKeyError


class LakeClient:
    """DuckDB's own DuckLake client on a warehouse with a SQLite catalog."""

    def __init__(self) -> None:
        folder = next(p for p in map(Path, sys.path) if (p / "duckdb_extension_ducklake").is_dir())
        self._duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for extension in ("sqlite_scanner", "ducklake"):
            file = next((folder / f"duckdb_extension_{extension}").glob("**/*.duckdb_extension"))
            self._duck.execute(f"LOAD '{file}'")

    def bag(self, warehouse: Path, snapshot: int) -> Bag:
        where = f"ducklake:sqlite:{warehouse}/catalog.sqlite"
        self._duck.execute(f"ATTACH '{where}' AS lake (READ_ONLY, SNAPSHOT_VERSION {snapshot})")
        try:
            return bag_of(self._duck.execute(f"SELECT * FROM lake.{TABLE}").to_arrow_table())
        finally:
            self._duck.execute("DETACH lake")

    def close(self) -> None:
        self._duck.close()
