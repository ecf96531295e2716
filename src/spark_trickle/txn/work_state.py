"""What a transaction has come to: one value, so that a savepoint of it is the value itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spark_trickle.model.catalog import Catalog
from spark_trickle.model.commit import (
    AlteredTable,
    CreatedSchema,
    CreatedTable,
    CreatedView,
    Definition,
    DroppedSchema,
    DroppedTable,
    DroppedView,
    TableChange,
)
from spark_trickle.model.files import DataFile
from spark_trickle.model.source import Landed
from spark_trickle.model.stream import Refreshed


@dataclass(frozen=True)
class WorkState:
    """Everything that a statement which fails must leave as it was."""

    catalog: Catalog
    definitions: tuple[Definition, ...] = ()
    changes: Mapping[int, TableChange] = field(default_factory=dict)
    refreshed: tuple[Refreshed, ...] = ()
    landed: Landed | None = None
    once_committed: tuple[Callable[[], None], ...] = ()  # what others are told of it
    pinned: Mapping[int, tuple[DataFile, ...]] = field(default_factory=dict)  # instead of what is committed

    def with_change(self, change: TableChange) -> WorkState:
        """The change comes after an earlier one of the same table."""
        earlier = self.changes.get(change.table.id)
        return self.replace_change(earlier.then(change) if earlier else change)

    def replace_change(self, change: TableChange) -> WorkState:
        return replace(self, changes={**self.changes, change.table.id: change})

    def with_pinned(self, files: Mapping[int, tuple[DataFile, ...]]) -> WorkState:
        return replace(self, pinned={**self.pinned, **files})

    def with_definition(self, definition: Definition) -> WorkState:
        if isinstance(definition, AlteredTable):
            known = self.catalog.table_by_id(definition.old.id) or definition.old
            definition = AlteredTable(definition.old, definition.new.after(known))
        changes = self.changes
        if isinstance(definition, DroppedTable):
            changes = {i: c for i, c in changes.items() if i != definition.table.id}
        catalog = _define(self.catalog, definition)
        return replace(self, catalog=catalog, definitions=(*self.definitions, definition), changes=changes)


def _define(catalog: Catalog, definition: Definition) -> Catalog:
    match definition:
        case CreatedSchema(schema):
            return catalog.with_schema(schema).with_ids_taken(1)
        case DroppedSchema(schema):
            return catalog.without_schema(schema)
        case CreatedTable(table):
            return catalog.with_relation(table).with_ids_taken(2)
        case CreatedView(view):
            return catalog.with_relation(view).with_ids_taken(1)
        case AlteredTable(_, new):
            return catalog.with_relation(new)
        case DroppedTable(table):
            return catalog.without_relation(table)
        case DroppedView(view):
            return catalog.without_relation(view)
