"""A table of a source -> the table of ours that follows it, and how that changes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model.source import Mirror, WrittenColumn
from spark_trickle.model.table import WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import (
    ColumnType,
    can_widen,
    from_spark,
    list_field_ids,
    renumber_fields,
    to_spark,
    without_ids,
)
from spark_trickle.sources.interface import RemoteColumn, RemoteTable
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.txn.names import check_column_names
from spark_trickle.txn.work import Work


def new_table(
    work: Work,
    source: str,
    remote: RemoteTable,
    name: tuple[str, str],
    chosen: Sequence[str],
    skip: Sequence[str],
    in_place: bool,
) -> Table:
    """A table for some columns of the source: those that are named, or all but the skipped ones."""
    names = [c.name for c in remote.columns]
    if unknown := [c for c in (*chosen, *skip) if c not in names]:
        raise ColumnNotFoundError(unknown[0], tuple(names))
    wanted = [c for c in remote.columns if (not chosen or c.name in chosen) and c.name not in skip]
    if not wanted:
        raise InvalidDefinitionError(
            f'table "{remote.name}" has no column to read', "Do not leave out all of them."
        )
    check_column_names([c.name for c in wanted])
    ids = count(WEIGHT_ID + 1)
    numbered = [(next(ids), c) for c in wanted]
    columns = tuple(
        TableColumn(id, c.name, from_spark(c.name, c.type, ids), nullable=c.name not in remote.key)
        for id, c in numbered
    )
    written = _list_written(columns, wanted) if in_place else None
    return Table(
        id=work.new_id(),
        schema=name[0],
        name=name[1],
        columns=columns,
        key=tuple(c.id for c in columns if c.name in remote.key),
        key_enforced=bool(remote.key),
        path=new_table_path(name[1]),
        next_column_id=next(ids),
        view_id=work.new_id() + 1,
        mirror=Mirror(
            source,
            "",
            remote.name,
            0,
            (),
            0,
            chosen=len(wanted) < len(names),
            written=written,
            lasting=_list_lasting(columns, wanted),
            identity=remote.identity,
        ),
    )


def adapt_table(table: Table, remote: RemoteTable, more: Sequence[str] = ()) -> Table:
    """The table with the columns that its source has now, and more of them if asked for.

    A renamed column keeps its id, so that stream tables follow it; so does one of a wider type. If the table
    was made again, what lasted until then may stand for anything, and columns are known by their names.
    """
    names = [c.name for c in remote.columns]
    if unknown := [c for c in more if c not in names]:
        raise ColumnNotFoundError(unknown[0], tuple(names))
    mirror = require_mirror(table)
    lasting, again = dict(mirror.lasting), remote.identity != mirror.identity
    keys = [c.name if again else c.identity for c in remote.columns]
    known = {c.name if again else lasting[c.id]: c for c in table.columns}
    parts = {} if again else {w.column_id: w.type for w in mirror.written or ()}
    found = [(c, known.get(key)) for c, key in zip(remote.columns, keys, strict=True)]
    wanted = [(c, old) for c, old in found if old is not None or c.name in more or not mirror.chosen]
    if not wanted:
        raise InvalidDefinitionError(
            f'all columns of "{table.full_name}" were dropped in the source', "Drop the table."
        )
    chosen = [c for c, _ in wanted]
    check_column_names([c.name for c in chosen])
    ids = count(table.next_column_id)
    columns = tuple(_adapt_column(c, old, parts, ids) for c, old in wanted)
    written = None if mirror.written is None else _list_written(columns, chosen)
    kept = replace(
        mirror,
        chosen=len(wanted) < len(names),
        written=written,
        lasting=_list_lasting(columns, chosen),
        identity=remote.identity,
    )
    return replace(table, columns=columns, next_column_id=next(ids), mirror=kept)


def can_compare(old: Table, new: Table) -> bool:
    """Whether the files of before can be read by what is known of the columns now.

    They cannot if the table was dropped and created again, and its files number columns in another way.
    """
    before, after = require_mirror(old), require_mirror(new)
    known = {w.column_id: w for w in before.written or ()}
    same = all(known.get(w.column_id, w) == w for w in after.written or ())
    return before.identity == after.identity or same


def _adapt_column(
    new: RemoteColumn, old: TableColumn | None, parts: Mapping[int, ColumnType], ids: Iterator[int]
) -> TableColumn:
    """The same column if it has the same type, down to where the files hold each of its parts.

    A field of a struct that was dropped and added again has its name and type, but other values.
    """
    if old is not None and without_ids(to_spark(old.type)) == without_ids(new.type):
        same = old.id not in parts or parts[old.id] == _written_type(old, new)
        kept = old if same else TableColumn(next(ids), new.name, renumber_fields(old.type, ids))
        return kept if kept.name == new.name else replace(kept, name=new.name)
    id = next(ids)
    kind = from_spark(new.name, new.type, ids)
    if old is not None and can_widen(old.type, kind):
        return replace(old, name=new.name, type=kind)
    return TableColumn(id, new.name, kind)


def _list_written(
    columns: Sequence[TableColumn], remote: Sequence[RemoteColumn]
) -> tuple[WrittenColumn, ...]:
    return tuple(
        WrittenColumn(c.id, r.written or r.name, _written_type(c, r), r.field_id)
        for c, r in zip(columns, remote, strict=True)
    )


def _written_type(column: TableColumn, remote: RemoteColumn) -> ColumnType:
    if remote.written_type is None:
        return column.type
    ids = count() if remote.field_id is None else list_field_ids(remote.written_type)
    return from_spark(column.name, remote.written_type, ids)


def _list_lasting(
    columns: Sequence[TableColumn], remote: Sequence[RemoteColumn]
) -> tuple[tuple[int, str], ...]:
    return tuple((c.id, r.identity) for c, r in zip(columns, remote, strict=True))
