"""Files by the columns that they have -> scans, and the columns that the table lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

from spark_trickle.errors import InvalidDefinitionError, TypeNotAllowedError, UnsupportedError
from spark_trickle.model.arriving import FILE, LOADED_AT, FileColumn, FileFormat, FileScan
from spark_trickle.model.table import Table
from spark_trickle.model.types import can_widen, from_spark, sql_name, to_spark, type_in_query, without_ids
from spark_trickle.sources.interface import Arrivals, Inspected, LoadedTable, RemoteColumn, RemoteTable
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.spark.arriving import (
    UNREADABLE,
    find_fault,
    infer_columns,
    parse_columns,
    read_layout,
    require_format,
)
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
    columns = infer_readable(spark, arrivals.format, [f for f in found if not f.problem and not f.is_gone])
    if not columns:
        raise InvalidDefinitionError(
            f'no file tells which columns the table "{name}" has',
            "Wait for the first file, or give the columns: OPTIONS (schema 'id BIGINT, name STRING').",
        )
    return columns


def infer_readable(spark: Session, kind: FileFormat, files: Sequence[Inspected]) -> tuple[FileColumn, ...]:
    """The columns that Spark finds in files of which some may be broken."""
    addresses = [f.file.address for f in files]
    try:
        return infer_columns(spark, kind, addresses) if addresses else ()
    except UNREADABLE:
        scan = FileScan(tuple(addresses), (FileColumn("_", "string"),))
        faults = find_faults(spark, kind, [scan])
        whole = [a for a in addresses if a not in faults]
        if not faults:
            raise
        return infer_columns(spark, kind, whole) if whole else ()


def find_faults(spark: Session, kind: FileFormat, scans: Sequence[FileScan]) -> dict[str, str]:
    """Which files cannot be read, and why: halves of halves, until it is certain."""
    parts, faults = list(scans), dict[str, str]()
    while parts:
        scan = parts.pop()
        if (fault := find_fault(spark, kind, scan)) is None:
            continue
        if len(scan.files) == 1:
            faults[scan.files[0]] = fault
            continue
        middle = len(scan.files) // 2
        parts += [FileScan(half, scan.columns) for half in (scan.files[:middle], scan.files[middle:])]
    return faults


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
    """Inspected files by their columns: `columns` are those of each layout, where files tell their types.

    `problems` are layouts that cannot be loaded.
    """

    kind: FileFormat
    files: tuple[Inspected, ...]
    columns: dict[str, tuple[FileColumn, ...]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def faults(self) -> dict[str, str]:
        return {f.file.address: self.problems[f.layout] for f in self.files if f.layout in self.problems}


def read_layouts(
    spark: Session, kind: FileFormat, files: Sequence[Inspected], table: Table, evolves: bool
) -> Layouts:
    """What the files have, and what of it the table cannot hold."""
    columns, problems = dict[str, tuple[FileColumn, ...]](), dict[str, str]()
    examples = {f.layout: f.file.address for f in reversed(files)} if kind.name in _TYPED else {}
    for layout, address in examples.items():
        found = _read_types(_Example(spark, kind, address, layout))
        if isinstance(found, str):
            problems[layout] = found
        elif misfit := _find_misfit(table, found, evolves):
            problems[layout] = misfit
        else:
            columns[layout] = found
    known = {_key(c.name) for c in list_file_columns(table)}
    for file in files:
        if file.names and not known & {_key(n) for n in file.names}:
            problems[file.layout] = "the file has none of the columns of the table"
            columns.pop(file.layout, None)
    return Layouts(kind, tuple(files), columns, problems)


@dataclass(frozen=True)
class _Example:
    """A file for all of its layout."""

    spark: Session = field(compare=False)
    kind: FileFormat
    address: str = field(compare=False)
    layout: str


@lru_cache(256)
def _read_types(example: _Example) -> tuple[FileColumn, ...] | str:
    return read_layout(example.spark, example.kind, example.address)


def find_new_columns(spark: Session, table: Table, found: Layouts) -> tuple[RemoteColumn, ...]:
    """Columns of files that the table does not have."""
    if found.kind.by_position:
        return ()
    if found.kind.name in _TYPED:
        columns = [c for layout in found.columns.values() for c in layout]
    else:
        fitting = [f for f in found.files if f.layout not in found.problems]
        columns = list(infer_readable(spark, found.kind, fitting))
    columns = [FileColumn(c.name.strip(), c.type) for c in columns]
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


def _find_misfit(table: Table, columns: Sequence[FileColumn], evolves: bool) -> str:
    """Why files with these columns cannot be loaded."""
    wanted = {c.name.lower(): c for c in list_file_columns(table)}
    found = [(c, wanted.get(c.name.lower())) for c in columns]
    problems = [
        f'column "{c.name}" is {_show(c)}, not {_show(w)}'
        for c, w in found
        if w is not None and not _fits(c.type, w.type)
    ]
    if evolves:
        problems += [_refuse_type(c) for c, w in found if w is None]
    return "; ".join(p for p in problems if p)


def _refuse_type(column: FileColumn) -> str:
    try:
        from_spark(column.name, column.type, count())
    except TypeNotAllowedError as error:
        return error.message
    return ""


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
    known = {_key(c.name): c.type for c in wanted}
    if kind.name in _TYPED:
        return tuple(FileColumn(n, known[_key(n)]) for n in file.names if _key(n) in known)
    return tuple(FileColumn(n, known.get(_key(n), "string")) for n in file.names)


def _key(name: str) -> str:
    """By which a column is found: headers have blanks around names."""
    return name.strip().lower()


def _show(column: FileColumn) -> str:
    return sql_name(type_in_query(column.type))


def _fits(found: Any, wanted: Any) -> bool:
    """Whether every value of one type is a value of the other; fields may be there or not."""
    if isinstance(found, str) and isinstance(wanted, str):
        return can_widen(type_in_query(found), type_in_query(wanted))
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
