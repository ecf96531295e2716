"""The catalog and the data folder -> what is missing, damaged or unknown; every file is read to its end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import Connection, select

from spark_trickle.lake.catalog import lease, read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.storage.stats import column_stats
from spark_trickle.lake.storage.vacuum import parse_writer, read_known_locations, without_checksum
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.arrow import arrow_schema, column_ids
from spark_trickle.model.catalog import Catalog
from spark_trickle.model.files import ColumnStats, Role
from spark_trickle.model.table import WEIGHT, Table

_READERS = 4


@dataclass(frozen=True)
class FileFinding:
    """Severity is ok, warning or error; `path` is None where a whole table is meant."""

    severity: str
    table: str
    path: str | None
    detail: str


@dataclass(frozen=True)
class _Expected:
    """What the catalog says of one file."""

    name: str
    table: Table | None  # None if it was dropped, and only older snapshots show it
    location: str
    rows: int
    bytes: int
    weight: int | None  # None if it is known only as removed
    stats: tuple[ColumnStats, ...]


def verify_files(warehouse: Warehouse, now: datetime, only: Table | None = None) -> list[FileFinding]:
    """Check all files of the warehouse, or of one table, that any remaining snapshot needs."""
    present = list(warehouse.storage.all_files(only.path if only else None))
    with open_reader(warehouse.engine) as connection:
        newest = read.read_newest(connection)
        expected = list(_read_expected(connection, read.read_catalog(connection, newest), only))
        known = read_known_locations(connection)
        writing = {x.session_id for x in lease.read_active_leases(connection, now)} | {
            warehouse.storage.session_id
        }
    with ThreadPoolExecutor(_READERS) as pool:
        problems = [p for p in pool.map(lambda e: _check_file(warehouse, e), expected) if p is not None]
    unknown = [
        FileFinding(
            "warning", "", file.location, "no snapshot contains this file; it is neither read nor deleted"
        )
        for file in present
        if without_checksum(file.location) not in known and parse_writer(file.location) not in writing
    ]
    return [*problems, *unknown, *_summarize_problems(expected, problems)]


def _read_expected(connection: Connection, catalog: Catalog, only: Table | None) -> Iterator[_Expected]:
    joined = s.data_file.join(s.trickle_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    query = select(s.data_file, s.trickle_file.c.role, s.trickle_file.c.location, s.trickle_file.c.deletes)
    stats: dict[int, list[ColumnStats]] = {}
    for row in connection.execute(select(s.file_stats)):
        found = ColumnStats(row.column_id, row.value_count, row.null_count, row.min_value, row.max_value)
        stats.setdefault(row.data_file_id, []).append(found)
    seen = set()
    # A file that was removed as a whole is listed twice, and what it holds is told by the first.
    removed_last = (s.trickle_file.c.role == Role.REMOVED.value, s.data_file.c.data_file_id)
    ours = query.select_from(joined).where(s.trickle_file.c.location.is_not(None))
    for row in connection.execute(ours.order_by(*removed_last)):
        table = catalog.table_by_id(row.table_id)
        if row.location in seen or (only is not None and row.table_id != only.id):
            continue
        seen.add(row.location)
        weight = None if row.role == Role.REMOVED.value else row.record_count - 2 * row.deletes
        known = tuple(stats.get(row.data_file_id, ())) if weight is not None else ()
        name = table.full_name if table is not None else f"dropped table {row.table_id}"
        yield _Expected(name, table, row.location, row.record_count, row.file_size_bytes, weight, known)


def _check_file(warehouse: Warehouse, expected: _Expected) -> FileFinding | None:
    detail = _find_problem(warehouse, expected)
    return None if detail is None else FileFinding("error", expected.name, expected.location, detail)


def _find_problem(warehouse: Warehouse, expected: _Expected) -> str | None:
    found = warehouse.storage.find(expected.location)
    if found is None:
        return "the file is missing"
    if found != expected.bytes:
        return f"the file has {found} bytes instead of {expected.bytes}"
    try:
        with warehouse.storage.open_location(expected.location) as source:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            rows, weight = _read_through(parquet)
            stats = _footer_stats(parquet, expected.table) if expected.table is not None else {}
    except (pa.ArrowException, OSError) as error:
        return f"the file cannot be read: {str(error).splitlines()[0]}"
    if rows != expected.rows:
        return f"the file has {rows} rows instead of {expected.rows}"
    if expected.weight is not None and weight != expected.weight:
        return f"the weights of its rows add up to {weight} instead of {expected.weight}"
    for known in expected.stats:
        if known.column_id in stats and stats[known.column_id] != known:
            return f"the statistics of column {known.column_id} do not match the catalog"
    return None


def _read_through(parquet: pq.ParquetFile) -> tuple[int, int]:
    """Decode every value, some rows at a time: rows, and the sum of their weights."""
    rows = weight = 0
    for batch in parquet.iter_batches():
        rows += batch.num_rows
        weight += pc.sum(batch.column(WEIGHT)).as_py() or 0
    return rows, weight


def _footer_stats(parquet: pq.ParquetFile, table: Table) -> dict[int, ColumnStats]:
    """What the file says of those columns that still have their type, by whatever name it knows them."""
    names, types = column_ids(parquet.schema_arrow), parquet.schema_arrow
    now = arrow_schema(table)
    columns = tuple(
        replace(c, name=names[c.id])
        for c in table.columns
        if c.id in names and types.field(names[c.id]).type == now.field(c.name).type
    )
    found = column_stats(parquet.metadata, replace(table, columns=columns))
    return {x.column_id: replace(x, has_nan=None, bytes=0) for x in found}


def _summarize_problems(expected: list[_Expected], problems: list[FileFinding]) -> list[FileFinding]:
    damaged = {p.table for p in problems}
    by_table: dict[str, list[_Expected]] = {}
    for e in expected:
        by_table.setdefault(e.name, []).append(e)
    return [
        FileFinding("ok", name, None, f"{len(files)} files with {sum(f.rows for f in files)} rows are intact")
        for name, files in sorted(by_table.items())
        if name not in damaged
    ]
