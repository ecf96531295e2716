"""Small warehouses without Spark: tables, files that exist only in the catalog, and commits of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import Table as SqlTable
from sqlalchemy import select

from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.commit import publish_commit
from spark_trickle.lake.catalog.conflicts import Overlap
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.commit import Commit, CreatedTable, Definition, TableChange
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = count()


def data_file(rows: int = 5, deletes: int = 0, role: Role = Role.CHANGE, as_of: int = 0) -> DataFile:
    return DataFile(f"s-{next(_numbers)}.parquet", role, rows, deletes, 100, 10, as_of)


def table_value(id: int, name: str, key: bool = False, schema: str = "main") -> Table:
    columns = (
        TableColumn(2, "id", Scalar("integer"), nullable=not key),
        TableColumn(3, "v", Scalar("string")),
    )
    return Table(id, schema, name, columns, (2,) if key else (), True, f"{name}-{id}/", 4, id + 1)


@dataclass
class Lake:
    """A warehouse to commit to; every commit reads the newest snapshot unless told otherwise."""

    warehouse: Warehouse

    def newest(self) -> Snapshot:
        with open_reader(self.warehouse.engine) as connection:
            return read.read_newest(connection)

    def catalog(self, at: Snapshot | None = None) -> Catalog:
        with open_reader(self.warehouse.engine) as connection:
            return read.read_catalog(connection, at or read.read_newest(connection))

    def files(self, table: Table, at: int | None = None) -> tuple[DataFile, ...]:
        with open_reader(self.warehouse.engine) as connection:
            return read.read_files(connection, table.id, self.newest().id if at is None else at)

    def rows(self, table: SqlTable) -> list[dict[str, Any]]:
        with open_reader(self.warehouse.engine) as connection:
            return [dict(row._mapping) for row in connection.execute(select(table))]

    def commit(
        self,
        *changes: TableChange,
        definitions: Iterable[Definition] = (),
        at: Snapshot | None = None,
        now: datetime | None = None,
    ) -> Snapshot:
        base = at or self.newest()
        commit = Commit(base.id, base.next_catalog_id, tuple(definitions), changes)
        moment = now or NOW + timedelta(seconds=base.id)
        found = publish_commit(self.warehouse.engine, self.warehouse.folder, commit, moment)
        if isinstance(found, Overlap):  # there are no rows that could tell more
            raise found.conflict
        assert isinstance(found, Snapshot)
        return found

    def create(self, name: str, key: bool = False) -> Table:
        table = table_value(self.newest().next_catalog_id, name, key)
        self.commit(definitions=[CreatedTable(table)])
        return table

    def insert(self, table: Table, at: Snapshot | None = None) -> Snapshot:
        return self.commit(TableChange(table, added=(data_file(),)), at=at)


def renamed(table: Table, name: str) -> Table:
    return replace(table, name=name)
