"""Tables in place of very many files: what a sync and a refresh cost depends on what changed, not on these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from sqlalchemy import event

import spark_trickle
from spark_trickle.lake.catalog import read
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.sources.iceberg_tables import Commit, IcebergLake
from tests.sources.lakes import FIRST, orders

MANY = 2_000


@dataclass(frozen=True)
class Spent:
    """Statements to the catalog, rows that they wrote, and files that they listed."""

    statements: int
    written: int
    listed: int

    def within(self, most: Spent) -> bool:
        return all(vars(self)[name] <= limit for name, limit in vars(most).items())


# With a little room; none of them grows with the number of files.
NOTHING_NEW = Spent(16, 2, 0)
ONE_FILE = Spent(32, 28, 3)
REFRESH = Spent(42, 18, 6)


class ManyFiles(Protocol):
    """A lake whose table gets files that do not exist: whatever opens one of them fails."""

    attach: str

    def move_rows(self) -> None:
        """Commit files without a change of rows."""

    def change(self) -> None:
        """Write one file again, with another row."""


@dataclass
class ManyOfDelta:
    path: Path

    def __post_init__(self) -> None:
        self.attach = f"ATTACH SOURCE lake TYPE delta OPTIONS (path '{self.path}')"
        self.table = "lake.orders"
        write_deltalake(self.path / "orders", orders(FIRST))

    def move_rows(self) -> None:
        stats = json.dumps(
            {"numRecords": 1, "minValues": {"id": 9}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
        )
        lines = [
            {
                "add": {
                    "path": f"{n}.parquet",
                    "partitionValues": {},
                    "size": 1,
                    "modificationTime": 0,
                    "dataChange": False,
                    "stats": stats,
                }
            }
            for n in range(MANY)
        ]
        text = "\n".join(json.dumps(line) for line in lines)
        (self.path / "orders" / "_delta_log" / f"{1:020}.json").write_text(text)

    def change(self) -> None:
        DeltaTable(self.path / "orders").update(updates={"amount": "11"}, predicate="id = 1")


@dataclass
class ManyOfIceberg:
    path: Path

    def __post_init__(self) -> None:
        self.lake = IcebergLake(self.path)
        self.attach = f"ATTACH SOURCE lake TYPE iceberg OPTIONS (catalog 'sql', catalog_name 'writer', uri '{self.lake.uri}')"
        self.table = "lake.shop.orders"
        self.lake.create(orders(FIRST))

    def move_rows(self) -> None:
        Commit(self.lake.table(), Operation.REPLACE, [self._describe(n) for n in range(MANY)]).write()

    def _describe(self, number: int) -> DataFile:
        bound = {1: (9).to_bytes(8, "little")}
        found = DataFile.from_args(
            3,
            content=DataFileContent.DATA,
            file_path=f"file://{self.path}/{number}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=1,
            null_value_counts={1: 0},
            lower_bounds=bound,
            upper_bounds=bound,
        )
        found.spec_id = 0
        return found

    def change(self) -> None:
        self.lake.table().overwrite(self.lake.align(orders([(1, "a", 11)])), EqualTo("id", 1))


@contextmanager
def count_costs(tr: Trickle, patch: pytest.MonkeyPatch) -> Iterator[list[Spent]]:
    counted: Counter[str] = Counter()
    engine, list_file = tr._connection.place.warehouse.engine, read._row_to_file

    def note(_: Any, __: Any, statement: str, given: Any, ___: Any, many: bool) -> None:
        counted["statements"] += 1
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            counted["written"] += len(given) if many else 1

    def note_file(row: Any) -> Any:
        counted["listed"] += 1
        return list_file(row)

    event.listen(engine, "before_cursor_execute", note)
    found: list[Spent] = []
    try:
        with patch.context() as inner:
            inner.setattr(read, "_row_to_file", note_file)
            yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)
    found.append(Spent(counted["statements"], counted["written"], counted["listed"]))


@pytest.mark.parametrize("kind", [ManyOfDelta, ManyOfIceberg])
def test_a_change_costs_what_changed(kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = kind(tmp_path / "lake")
    with spark_trickle.connect(tmp_path / "warehouse") as tr:
        tr.sql(lake.attach)
        tr.sql(f"CREATE TABLE orders FROM SOURCE {lake.table}")
        tr.sql("CREATE STREAM TABLE large AS SELECT id, amount FROM orders WHERE amount > 10")
        lake.move_rows()
        report = tr.sync("lake")
        assert (report.rows_inserted, report.rows_deleted) == (0, 0)
        assert tr.refresh("large").action is Action.NO_DATA
        with count_costs(tr, monkeypatch) as idle:
            tr.sync("lake")
        lake.change()
        with count_costs(tr, monkeypatch) as synced:
            report = tr.sync("lake")
        assert (report.rows_inserted, report.rows_deleted) == (1, 1)
        with count_costs(tr, monkeypatch) as refreshed:
            assert tr.refresh("large").action is Action.DIFFERENTIAL
        assert rows(tr.table("large")) == [(1, 11), (2, 20)]
        assert tr.sql("SELECT * FROM trickle.files('orders')").count() > MANY
    spent = {"idle": idle[0], "synced": synced[0], "refreshed": refreshed[0]}
    most = {"idle": NOTHING_NEW, "synced": ONE_FILE, "refreshed": REFRESH}
    assert {name: took for name, took in spent.items() if not took.within(most[name])} == {}
