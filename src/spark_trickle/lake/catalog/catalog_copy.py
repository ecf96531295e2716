"""A catalog in use -> a copy of one moment of it in a SQLite file; and such a file -> a catalog again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select

from spark_trickle.lake.catalog import migrations
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_engine, open_reader, open_writer

_TIMEOUT = 60.0
_ROWS = 5_000  # that are copied at a time
# What is true only while somebody works on the warehouse.
_PASSING = (s.trickle_lease, s.trickle_ended_session, s.trickle_running, s.scheduled)


def copy_catalog(engine: Engine, file: Path) -> None:
    """One consistent moment of a catalog, while others go on writing to it."""
    if engine.dialect.name == "sqlite":
        _copy_sqlite(engine, file)
    else:
        target = open_engine(f"sqlite:///{file}", _TIMEOUT)
        try:
            with open_reader(engine) as connection:
                fill_catalog(connection, target)
        finally:
            target.dispose()
    with closing(sqlite3.connect(file)) as copy:
        for table in _PASSING:
            copy.execute(f"DELETE FROM {table.name}")
        copy.commit()
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _copy_sqlite(engine: Engine, file: Path) -> None:
    opened = engine.raw_connection()
    try:
        driver = opened.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        with closing(sqlite3.connect(file)) as copy:
            driver.backup(copy)
    finally:
        opened.close()


def fill_catalog(rows: Connection, target: Engine) -> None:
    """Copy all rows of one catalog to an empty database of any kind."""
    with open_writer(target) as writer:
        migrations.upgrade_catalog(writer)
        for table in s.metadata.sorted_tables:
            writer.execute(delete(table))  # a migration may have filled it
            for part in rows.execute(select(table)).mappings().partitions(_ROWS):
                writer.execute(insert(table), [dict(row) for row in part])


def read_data_locations(file: Path) -> dict[str, int]:
    """Every data file that a copied catalog knows, with its size."""
    query = (
        "SELECT location, max(file_size_bytes) FROM trickle_file "
        "JOIN ducklake_data_file USING (data_file_id) WHERE location IS NOT NULL "
        "GROUP BY location ORDER BY location"
    )
    return dict(_run_query(file, query))


def read_newest(file: Path) -> tuple[int, str]:
    """The newest snapshot of a copied catalog, and who the warehouse is."""
    ((snapshot,),) = _run_query(file, "SELECT max(snapshot_id) FROM ducklake_snapshot")
    ((warehouse,),) = _run_query(file, "SELECT value FROM trickle_info WHERE key = 'warehouse_id'")
    return int(snapshot), str(warehouse)


def place_catalog(file: Path, root: str, beside: bool) -> None:
    """Tell a copied catalog where its data files are now."""
    with closing(sqlite3.connect(file)) as copy:
        copy.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", (f"{root}/",))
        value = str(beside).lower()
        copy.execute("UPDATE trickle_info SET value = ? WHERE key = 'data_beside_catalog'", (value,))
        copy.commit()


def _run_query(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as copy:
        return copy.execute(query).fetchall()
