"""Files by the columns that they have -> scans, and the columns that the table lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.model.arriving import FILE, LOADED_AT, FileColumn, FileFormat, FileScan
from spark_trickle.model.table import Table
from spark_trickle.model.types import can_widen, from_spark, sql_name, to_spark, without_ids
from spark_trickle.sources.interface import Arrivals, Inspected, LoadedTable, RemoteColumn, RemoteTable
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.spark.arriving import infer_columns, parse_columns, require_format
from spark_trickle.spark.frames import Session

_TYPED = ("parquet", "orc")  # the files say which types they hold
_LOOKED_AT = 100  # files that tell of the columns
_OWN = (RemoteColumn(FILE, "string"), RemoteColumn(LOADED_AT, "timestamp"))


def describe_loaded(spark: Session, table: LoadedTable, arrivals: Arrivals) -> RemoteTable:
    """The columns of a new table."""
    require_format(spark, arrivals.format)
    columns = parse_columns(table.schema) if table.schema else _infer(spark, table.name, arrivals)
    _refuse_bytes(arrivals.format, columns)
    return RemoteTable(table.name, (*(RemoteColumn(c.name, c.type) for c in columns), *_OWN))


def _infer(spark: Session, name: str, arrivals: Arrivals) -> tuple[FileColumn, ...]:
    found = arrivals.inspect(arrivals.files[:_LOOKED_AT])
    readable = [f.file.address for f in found if not f.problem and not f.is_gone]
    columns = infer_columns(spark, arrivals.format, readable) if readable else ()
    if not columns:
        raise InvalidDefinitionError(
            f'no file tells which columns the table "{name}" has',
            "Wait for the first file, or give the columns: OPTIONS (schema 'id BIGINT, name STRING').",
        )
    return columns


def _refuse_bytes(kind: FileFormat, columns: Iterable[FileColumn]) -> None:
    """Spark's reader of JSON takes 200 for a TINYINT, and makes −56 of it."""
    for column in columns if kind.name == "json" else ():
        if _holds_bytes(column.type):
            raise UnsupportedError(f'TINYINT for column "{column.name}" of JSON files', "Use SMALLINT.")


def _holds_bytes(spec: Any) -> bool:
    if isinstance(spec, str):
        return spec == "byte"
    if spec["type"] == "array":
        return _holds_bytes(spec["elementType"])
    return any(_holds_bytes(f["type"]) for f in spec.get("fields", ()))


@dataclass(frozen=True)
class Layouts:
    """Inspected files by their columns: `columns` are those of each layout, where files tell their types."""

    kind: FileFormat
    files: tuple[Inspected, ...]
    columns: dict[str, tuple[FileColumn, ...]] = field(default_factory=dict)


def read_layouts(spark: Session, kind: FileFormat, files: Sequence[Inspected]) -> Layouts:
    columns = {}
    if kind.name in _TYPED:
        for file in files:
            if file.layout not in columns:
                columns[file.layout] = _read_types(_Example(spark, kind, file.file.address, file.layout))
    return Layouts(kind, tuple(files), columns)


@dataclass(frozen=True)
class _Example:
    """A file for all of its layout."""

    spark: Session = field(compare=False)
    kind: FileFormat
    address: str = field(compare=False)
    layout: str


@lru_cache(256)
def _read_types(example: _Example) -> tuple[FileColumn, ...]:
    return infer_columns(example.spark, example.kind, [example.address])


def find_new_columns(spark: Session, table: Table, found: Layouts) -> tuple[RemoteColumn, ...]:
    """Columns of files that the table does not have."""
    if not found.files:
        return ()
    if found.columns:
        columns = [c for layout in found.columns.values() for c in layout]
    elif found.kind.by_position:
        return ()
    else:
        columns = list(infer_columns(spark, found.kind, [f.file.address for f in found.files]))
    new = {c.name.lower(): c for c in reversed(columns) if not table.has_column(c.name)}
    _refuse_bytes(found.kind, new.values())
    return tuple(RemoteColumn(c.name, c.type) for c in sorted(new.values(), key=lambda c: columns.index(c)))


def widen_remote(table: Table, new: Sequence[RemoteColumn]) -> RemoteTable:
    """The columns that the table has, and others before those that we add to every row."""
    lasting = dict(require_mirror(table).lasting)
    held = [
        RemoteColumn(c.name, without_ids(to_spark(c.type)), lasting[c.id])
        for c in table.columns
        if c.name not in (FILE, LOADED_AT)
    ]
    return RemoteTable(require_mirror(table).table, (*held, *new, *_OWN))


def find_misfits(table: Table, found: Layouts) -> dict[str, str]:
    """Why files whose types are others cannot be loaded, by their addresses."""
    wanted = {c.name.lower(): c for c in list_file_columns(table)}
    problems = {}
    for layout, columns in found.columns.items():
        wrong = [c for c in columns if (w := wanted.get(c.name.lower())) and not _fits(c.type, w.type)]
        if wrong:
            named = [f'column "{c.name}" is {_show(c)}, not {_show(wanted[c.name.lower()])}' for c in wrong]
            problems[layout] = "; ".join(named)
    return {f.file.address: problems[f.layout] for f in found.files if f.layout in problems}


def make_scans(table: Table, found: Layouts, left_out: Iterable[str]) -> tuple[FileScan, ...]:
    """Files of one layout are read together."""
    skipped, groups = set(left_out), dict[str, list[Inspected]]()
    for file in found.files:
        if file.file.address not in skipped:
            groups.setdefault(file.layout, []).append(file)
    return tuple(
        FileScan(tuple(f.file.address for f in files), _choose_columns(table, found.kind, files[0]))
        for files in groups.values()
    )


def list_file_columns(table: Table) -> tuple[FileColumn, ...]:
    """The columns of the table that files may have, as they call them."""
    lasting = dict(require_mirror(table).lasting)
    return tuple(
        FileColumn(lasting[c.id], without_ids(to_spark(c.type)))
        for c in table.columns
        if c.name not in (FILE, LOADED_AT)
    )


def _choose_columns(table: Table, kind: FileFormat, file: Inspected) -> tuple[FileColumn, ...]:
    wanted = list_file_columns(table)
    if not file.names:
        return wanted
    known = {c.name.lower(): c for c in wanted}
    if kind.name in _TYPED:
        return tuple(known[n.lower()] for n in file.names if n.lower() in known)
    return tuple(FileColumn(n, known[n.lower()].type if n.lower() in known else "string") for n in file.names)


def _show(column: FileColumn) -> str:
    return sql_name(from_spark(column.name, column.type, count()))


def _fits(found: Any, wanted: Any) -> bool:
    """Whether every value of one type is a value of the other; fields may be there or not."""
    if isinstance(found, str) and isinstance(wanted, str):
        return can_widen(from_spark("", found, count()), from_spark("", wanted, count()))
    if isinstance(found, str) or isinstance(wanted, str) or found["type"] != wanted["type"]:
        return False
    if found["type"] == "array":
        return _fits(found["elementType"], wanted["elementType"])
    if found["type"] == "struct":
        fields = {f["name"].lower(): f["type"] for f in found["fields"]}
        return all(
            f["name"].lower() not in fields or _fits(fields[f["name"].lower()], f["type"])
            for f in wanted["fields"]
        )
    return bool(found == wanted)
