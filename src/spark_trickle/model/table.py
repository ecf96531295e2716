"""Tables, views and schemas as the catalog knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.errors import ColumnNotFoundError
from spark_trickle.model import types
from spark_trickle.model.source import Mirror
from spark_trickle.model.stream import Stream
from spark_trickle.model.types import ColumnType

WEIGHT = "_w"
WEIGHT_ID = 1
HIDDEN_SCHEMA = "_trickle"
DEFAULT_SCHEMA = "main"


@dataclass(frozen=True)
class TableColumn:
    """A column of a table; `initial` is what rows written before the column was added hold in it."""

    id: int
    name: str
    type: ColumnType
    nullable: bool = True
    default: str | None = None
    initial: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Table:
    """A Z-set log under a name: its rows are the sum of the weights of its files."""

    id: int
    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[int, ...]
    key_enforced: bool
    path: str
    next_column_id: int
    view_id: int
    stream: Stream | None = None  # the query that fills it, if it is a stream table
    owner: int | None = None  # the stream table whose inner node this is
    mirror: Mirror | None = None  # the table of a source that it follows
    identity: tuple[int, ...] = ()  # columns that no two rows share, because of the query; they may be null
    former: tuple[tuple[str, int], ...] = ()  # what columns were called before, in lower case, with their ids

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def derived(self) -> bool:
        """Whether its rows come from elsewhere, so that no statement may change them."""
        return self.stream is not None or self.owner is not None or self.mirror is not None

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def key_columns(self) -> tuple[TableColumn, ...]:
        return tuple(c for key in self.key for c in self.columns if c.id == key)

    @property
    def unique(self) -> bool:
        """Whether the key really identifies one row."""
        return bool(self.key) and self.key_enforced

    @property
    def distinct_by(self) -> tuple[TableColumn, ...]:
        """Columns that tell all rows apart: an enforced key, or what the query promises; else none."""
        if self.unique:
            return self.key_columns
        return tuple(c for number in self.identity for c in self.columns if c.id == number)

    def column(self, name: str) -> TableColumn:
        for c in self.columns:
            if c.name.lower() == name.lower():
                return c
        raise ColumnNotFoundError(name, self.column_names)

    def has_column(self, name: str) -> bool:
        return any(c.name.lower() == name.lower() for c in self.columns)

    @property
    def inherited(self) -> frozenset[int]:
        """Columns with a name that was once that of another: in files of that time it still is."""
        return frozenset(c.id for c in self.columns if any(n == c.name.lower() for n, _ in self.former))

    def after(self, old: Table) -> Table:
        """The table, altered, with what its columns were called before."""
        now = {(c.name.lower(), c.id) for c in self.columns}
        known = dict.fromkeys((*old.former, *((c.name.lower(), c.id) for c in old.columns)))
        return replace(self, former=tuple(pair for pair in known if pair not in now))

    def with_column(self, column: TableColumn) -> Table:
        """The table with one column changed, found by its id."""
        return replace(self, columns=tuple(column if c.id == column.id else c for c in self.columns))


@dataclass(frozen=True)
class View:
    id: int
    schema: str
    name: str
    sql: str
    column_names: tuple[str, ...] = ()
    comment: str | None = None
    source_columns: tuple[str, ...] = ()  # what its query called them when the view was made
    home: str = DEFAULT_SCHEMA  # where its query looks for unqualified names

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Schema:
    id: int
    name: str


Relation = Table | View


def table_to_json(table: Table) -> dict[str, Any]:
    """What the catalog stores of a table beyond its id and name."""
    return {
        "columns": [
            [c.id, c.name, types.to_json(c.type), c.nullable, c.default, c.initial, c.comment]
            for c in table.columns
        ],
        "key": list(table.key),
        "enforced": table.key_enforced,
        "path": table.path,
        "next_column_id": table.next_column_id,
        "view_id": table.view_id,
        "stream": table.stream.to_json() if table.stream else None,
        "owner": table.owner,
        "mirror": table.mirror.to_json() if table.mirror else None,
        "identity": list(table.identity),
        "former": [list(pair) for pair in table.former],
    }


def table_from_json(id: int, schema: str, name: str, value: dict[str, Any]) -> Table:
    return Table(
        id=id,
        schema=schema,
        name=name,
        columns=tuple(
            TableColumn(i, n, types.from_json(t), nulls, default, initial, comment)
            for i, n, t, nulls, default, initial, comment in value["columns"]
        ),
        key=tuple(value["key"]),
        key_enforced=value["enforced"],
        path=value["path"],
        next_column_id=value["next_column_id"],
        view_id=value["view_id"],
        stream=Stream.from_json(value["stream"]) if value.get("stream") else None,
        owner=value.get("owner"),
        mirror=Mirror.from_json(value["mirror"]) if value.get("mirror") else None,
        identity=tuple(value.get("identity", ())),
        former=tuple((name, column_id) for name, column_id in value.get("former", ())),
    )


def display_names(relations: Iterable[Relation], current: str = DEFAULT_SCHEMA) -> tuple[str, ...]:
    """Names as a user would type them: without the schema if it is the current one."""
    return tuple(sorted(r.name if r.schema == current else r.full_name for r in relations))
