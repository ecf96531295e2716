"""A table of a source -> its mirror, and the columns that are captured for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, SourceSchemaChangedError
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model.source import Mirror, MirrorColumn
from spark_trickle.model.table import WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, can_widen
from spark_trickle.sources.postgres.capture import Capture, plan_capture
from spark_trickle.sources.postgres.discover import SourceColumn, SourceTable
from spark_trickle.sources.postgres.drift import Drift, RecordedColumn, find_drift
from spark_trickle.sources.postgres.options import PostgresOptions
from spark_trickle.sources.postgres.types import MappedColumn, map_columns
from spark_trickle.txn.names import check_column_names
from spark_trickle.txn.work import Work


def new_mirror(
    work: Work,
    source: str,
    remote: SourceTable,
    name: tuple[str, str],
    chosen: Sequence[str],
    skip: Sequence[str],
    as_text: Sequence[str],
) -> Table:
    """A table for some columns of the source: those that are named, or all but the skipped ones."""
    if unknown := [c for c in chosen if c not in remote.column_names]:
        raise ColumnNotFoundError(unknown[0], remote.column_names)
    left_out = {c for c in remote.column_names if chosen and c not in {*chosen, *remote.key}} | set(skip)
    ids = count(WEIGHT_ID + 1)
    numbered = {c.name: next(ids) for c in remote.columns if c.name not in left_out}
    mapped = map_columns(remote, ids, tuple(left_out), tuple(as_text))
    if not mapped:
        raise InvalidDefinitionError(
            f'table "{remote.full_name}" has no column to capture',
            "Give the table a column, or do not leave out all of them.",
        )
    check_column_names([c.name for c in mapped])
    keyed = bool(remote.key) and not left_out & set(remote.key) and _is_plain(mapped, remote.key)
    columns = tuple(
        TableColumn(numbered[c.name], c.name, c.type, nullable=not (keyed and c.name in remote.key))
        for c in mapped
    )
    return Table(
        id=work.new_id(),
        schema=name[0],
        name=name[1],
        columns=columns,
        key=tuple(numbered[k] for k in remote.key) if keyed else (),
        key_enforced=keyed,
        path=new_table_path(name[1]),
        next_column_id=next(ids),
        view_id=work.new_id() + 1,
        mirror=Mirror(
            source,
            remote.schema,
            remote.name,
            remote.oid,
            tuple(_make_mirror_column(numbered[c.name], c.source) for c in mapped),
            _find_newest_number(remote),
            tuple(as_text),
            chosen=bool(left_out),
        ),
    )


def _is_plain(mapped: Sequence[MappedColumn], key: Sequence[str]) -> bool:
    return all(isinstance(c.type, Scalar) for c in mapped if c.name in key)


def _make_mirror_column(column_id: int, column: SourceColumn) -> MirrorColumn:
    return MirrorColumn(column_id, column.number, column.type.oid, column.type.modifier)


def _find_newest_number(remote: SourceTable) -> int:
    return max(c.number for c in remote.columns)


def require_mirror(table: Table) -> Mirror:
    assert table.mirror is not None
    return table.mirror


def map_mirror_columns(table: Table, remote: SourceTable) -> tuple[MappedColumn, ...]:
    """How the columns of a mirror are read from its source now; they must be what they were."""
    broken = tuple(d.detail for d in find_mirror_drift(table, remote) if d.breaks)
    if has_new_key(table, remote):
        broken += ("its primary key was changed",)
    if broken:
        raise SourceSchemaChangedError(remote.full_name, broken)
    numbers = {c.column_id: c.number for c in require_mirror(table).columns}
    there = {c.number: c for c in remote.columns}
    return tuple(MappedColumn(there[numbers[c.id]], c.type) for c in table.columns)


def has_new_key(table: Table, remote: SourceTable) -> bool:
    """Whether what tells rows apart there is another one now; here it is relied on."""
    numbers = {c.column_id: c.number for c in require_mirror(table).columns}
    there = {c.name: c.number for c in remote.columns}
    return table.unique and tuple(numbers[k] for k in table.key) != tuple(there[k] for k in remote.key)


def find_mirror_drift(table: Table, remote: SourceTable) -> list[Drift]:
    names = {c.id: c.name for c in table.columns}
    mirror = require_mirror(table)
    recorded = [RecordedColumn(c.number, names[c.column_id], c.type, c.modifier) for c in mirror.columns]
    return find_drift(recorded, [mirror.known], remote.columns)


def plan_mirror_capture(table: Table, remote: SourceTable, options: PostgresOptions) -> Capture:
    """What triggers have to write down for a mirror."""
    needed = [c.name for c in map_mirror_columns(table, remote)]
    planned = plan_capture(remote, needed, options.capture, options.schema, options.unlogged, options.guarded)
    return replace(planned, notify=options.notify)


def adapt_mirror(table: Table, remote: SourceTable, more: Sequence[str] = ()) -> Table:
    """The mirror with the columns that its source has now, and more of them if asked for.

    A renamed column keeps its id, so that stream tables follow it; so does one of a wider type.
    """
    if unknown := [c for c in more if c not in remote.column_names]:
        raise ColumnNotFoundError(unknown[0], remote.column_names)
    mirror = require_mirror(table)
    ids = count(table.next_column_id)
    by_number = {c.number: next(o for o in table.columns if o.id == c.column_id) for c in mirror.columns}
    wanted = [
        c
        for c in remote.columns
        if c.number in by_number or c.name in more or (not mirror.chosen and c.generated != "v")
    ]
    left_out = tuple(set(remote.column_names) - {c.name for c in wanted})
    as_text = tuple(n for n in mirror.as_text if n in {c.name for c in wanted})
    numbered: dict[str, int] = {}
    for c in wanted:
        if c.number not in by_number:
            numbered[c.name] = next(ids)
    mapped = map_columns(remote, ids, left_out, as_text)
    columns = tuple(_adapt_column(c, by_number.get(c.source.number), numbered, ids) for c in mapped)
    check_column_names([c.name for c in columns])
    kept = {c.id for c in columns}
    followed = tuple(_make_mirror_column(c.id, m.source) for c, m in zip(columns, mapped, strict=True))
    key = table.key if set(table.key) <= kept and not has_new_key(table, remote) else ()
    return replace(
        table,
        columns=columns,
        key=key,
        key_enforced=bool(key),
        next_column_id=next(ids),
        mirror=replace(
            mirror,
            schema=remote.schema,
            table=remote.name,
            columns=followed,
            known=_find_newest_number(remote),
            chosen=bool(left_out),
        ),
    )


def _adapt_column(
    new: MappedColumn, old: TableColumn | None, numbered: dict[str, int], ids: Iterator[int]
) -> TableColumn:
    if old is None:
        return TableColumn(numbered[new.name], new.name, new.type)
    if _is_same_type(old.type, new.type) or can_widen(old.type, new.type):
        return replace(old, name=new.name, type=old.type if _is_same_type(old.type, new.type) else new.type)
    return TableColumn(next(ids), new.name, new.type)


def _is_same_type(one: ColumnType, other: ColumnType) -> bool:
    """Arrays of equal elements are the same, whatever number their element has."""
    if isinstance(one, Array) and isinstance(other, Array):
        return _is_same_type(one.element, other.element)
    return one == other
