"""The catalog at one snapshot: names to tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from spark_trickle.errors import SchemaNotFoundError, TableNotFoundError
from spark_trickle.model.table import HIDDEN_SCHEMA, Relation, Schema, Table, View, display_names


@dataclass(frozen=True)
class Snapshot:
    """One committed state of the whole warehouse."""

    id: int
    time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    session_id: str | None = None  # who committed it; unknown of old ones


@dataclass(frozen=True)
class Catalog:
    """All names at a snapshot. A transaction works on a copy that includes its own definitions."""

    snapshot: Snapshot
    schemas: Mapping[str, Schema]
    relations: Mapping[tuple[str, str], Relation]
    views: Mapping[int, Catalog] = field(default_factory=dict, repr=False)  # what names mean in some views

    def find(self, parts: tuple[str, ...], current: str) -> Relation | None:
        """The relation a dotted name means, or None if the warehouse has none of this name."""
        if len(parts) > 2:
            return None
        schema, name = parts if len(parts) == 2 else (current, parts[0])
        return self.relations.get((schema.lower(), name.lower()))

    def enter_view(self, view: View) -> Catalog:
        """What names mean in the text of a view."""
        return self.views.get(view.id, self)

    def relation(self, parts: tuple[str, ...], current: str) -> Relation:
        if (found := self.find(parts, current)) is None:
            raise TableNotFoundError(".".join(parts), display_names(self.relations.values(), current))
        return found

    def table(self, parts: tuple[str, ...], current: str) -> Table:
        found = self.relation(parts, current)
        if isinstance(found, View):
            raise TableNotFoundError(found.full_name, found="view")
        return found

    def table_by_id(self, table_id: int) -> Table | None:
        return next((t for t in self.tables() if t.id == table_id), None)

    def tables(self) -> list[Table]:
        return [r for r in self.relations.values() if isinstance(r, Table)]

    def find_readers(self, table: Table) -> list[Table]:
        """The stream tables that read a table."""
        return [
            t
            for t in self.tables()
            if t.stream is not None and any(source.table_id == table.id for source in t.stream.sources)
        ]

    def find_parts(self, table: Table) -> list[Table]:
        """The tables that tell of a mirror, and come and go with it."""
        own = table.mirror
        if own is None or own.part:
            return []
        found = [(t, t.mirror) for t in self.tables() if t.mirror is not None and t.mirror.part]
        return [t for t, m in found if (m.source, m.table) == (own.source, own.table)]

    def schema(self, name: str) -> Schema:
        if (found := self.schemas.get(name.lower())) is None or name.lower() == HIDDEN_SCHEMA:
            raise SchemaNotFoundError(name, tuple(s for s in self.schemas if s != HIDDEN_SCHEMA))
        return found

    def list_members(self, schema: str) -> list[Relation]:
        return [r for (s, _), r in self.relations.items() if s == schema.lower()]

    def with_relation(self, relation: Relation) -> Catalog:
        kept = {k: r for k, r in self.relations.items() if r.id != relation.id}
        return replace(self, relations={**kept, (relation.schema.lower(), relation.name.lower()): relation})

    def without_relation(self, relation: Relation) -> Catalog:
        return replace(self, relations={k: r for k, r in self.relations.items() if r.id != relation.id})

    def with_schema(self, schema: Schema) -> Catalog:
        return replace(self, schemas={**self.schemas, schema.name.lower(): schema})

    def without_schema(self, schema: Schema) -> Catalog:
        return replace(self, schemas={k: s for k, s in self.schemas.items() if s.id != schema.id})

    def with_ids_taken(self, count: int) -> Catalog:
        taken = replace(self.snapshot, next_catalog_id=self.snapshot.next_catalog_id + count)
        return replace(self, snapshot=taken)
