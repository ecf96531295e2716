"""A stream table -> what its query, and the views in it, call the tables and columns that they read.

Tables and columns may be renamed under a stream table, and others may take their names. Its plan knows them
by their ids; its texts, when they have to be read again, must find what they meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from spark_trickle.model.catalog import Catalog
from spark_trickle.model.stream import KnownNames, KnownTable, Source, Stream
from spark_trickle.model.table import Relation, Table, TableColumn, View
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Wording:
    """What names mean when a query is bound."""

    texts: Catalog  # in the query; `enter_view` tells what they mean in its views
    plan: Catalog  # in the plan: as they are now, and columns that a text names although they were dropped


@dataclass
class TextsRead:
    """What the texts of a query were found to read, while it is bound."""

    views: dict[int, str] = field(default_factory=dict)
    tables: dict[int | None, dict[int, Table]] = field(default_factory=dict)  # by the view that reads them

    def note_table(self, view_id: int | None, table: Table) -> None:
        self.tables.setdefault(view_id, {})[table.id] = table

    @property
    def known(self) -> tuple[KnownNames, ...]:
        texts = sorted(self.tables.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        return tuple(
            KnownNames(view_id, tuple(_record_names(t) for _, t in sorted(tables.items())))
            for view_id, tables in texts
        )


def _record_names(table: Table) -> KnownTable:
    columns = tuple((c.id, c.name, c.type) for c in table.columns)
    return KnownTable(table.id, table.schema, table.name, columns)


def restore_known_names(work: Work, stream: Stream) -> Work:
    """The same work, in which every source is called what it was when the query was bound."""
    return work.with_catalog(wording_of(work.catalog, stream).texts)


def wording_of(now: Catalog, stream: Stream) -> Wording:
    """The wording that a stream table was bound with; a view that was replaced since is read as it is now."""
    known = stream.known or _derive_known_names(now, stream)
    views: dict[int, Catalog] = {}
    for view in (r for r in now.relations.values() if isinstance(r, View)):
        views[view.id] = replace(now, views=views)
    for names in known:
        if names.view_id is not None:
            views[names.view_id] = replace(_with_known_tables(now, names.tables), views=views)
    of_query = tuple(t for names in known if names.view_id is None for t in names.tables)
    texts = replace(_with_known_tables(now, of_query), views=views)
    return Wording(texts, _with_dropped_columns(now, known))


def _derive_known_names(now: Catalog, stream: Stream) -> tuple[KnownNames, ...]:
    """Of a stream table that was made before its catalog kept all names: those that its plan uses."""
    pairs = [(source, now.table_by_id(source.table_id)) for source in stream.sources]
    tables = tuple(
        _used_columns(table, source, source.name)
        for source, table in pairs
        if table is not None and source.name is not None
    )
    return tuple(KnownNames(view_id, tables) for view_id in (None, *(i for i, _ in stream.views)))


def _used_columns(table: Table, source: Source, name: tuple[str, str]) -> KnownTable:
    used = {c.column_id: c.name for c in source.columns}
    taken = {n.lower() for n in used.values()}
    # A column that came later under one of these names is not the one that is meant.
    columns = tuple(
        (c.id, used.get(c.id, c.name), c.type)
        for c in table.columns
        if c.id in used or c.name.lower() not in taken
    )
    return KnownTable(table.id, name[0], name[1], columns)


def _with_known_tables(now: Catalog, tables: Iterable[KnownTable]) -> Catalog:
    """Tables under the names that they had; whoever has such a name now cannot be reached by it."""
    known: dict[tuple[str, str], Relation] = {}
    for k in tables:
        if (table := now.table_by_id(k.table_id)) is not None:
            known[(k.schema.lower(), k.name.lower())] = _restore_names(table, k)
    ids = {r.id for r in known.values()}
    others = {
        key if key not in known else ("", str(r.id)): r for key, r in now.relations.items() if r.id not in ids
    }
    return replace(now, relations={**others, **known})


def _restore_names(table: Table, known: KnownTable) -> Table:
    columns = {c.id: c for c in table.columns}
    named = tuple(
        replace(columns.get(i, TableColumn(i, name, kind)), name=name) for i, name, kind in known.columns
    )
    return replace(table, schema=known.schema, name=known.name, columns=named)


def _with_dropped_columns(now: Catalog, known: Iterable[KnownNames]) -> Catalog:
    """A text may name a column that its plan does without, and that nobody kept from being dropped."""
    for k in (t for names in known for t in names.tables):
        table = now.table_by_id(k.table_id)
        if table is None:
            continue
        for i, name, kind in k.columns:
            if all(c.id != i for c in table.columns):
                dropped = TableColumn(i, _free_name(name, table), kind)
                table = replace(table, columns=(*table.columns, dropped))
        now = now.with_relation(table)
    return now


def _free_name(name: str, table: Table) -> str:
    return name if not table.has_column(name) else _free_name(f"{name} (dropped)", table)
