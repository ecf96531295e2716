"""A stream table -> the table that shows it in PostgreSQL: its names, its types, what finds a row in it.

| here | there |
|---|---|
| BOOLEAN, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, BINARY | the same: boolean, …, date, bytea |
| TINYINT | smallint, the smallest there is |
| DECIMAL(p, s) | numeric(p, s) |
| STRING | text |
| VARCHAR(n), CHAR(n) | varchar(n); char(n) would ignore blanks at the end; text above 10,485,760 |
| TIMESTAMP, TIMESTAMP_NTZ | timestamp with and without time zone |
| TIME(n) | time(n) |
| INTERVAL … | interval; one of days to seconds holds only its hours, minutes and seconds |
| ARRAY of one of these | an array of it |
| STRUCT, and ARRAY of ARRAY or STRUCT | jsonb; numbers stay exact, NaN and infinities become strings |
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError
from spark_trickle.model.source import UNKNOWN_SITE, Site
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, holds_float, length_limit

LEDGER = "trickle_published"
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts off the rest without a word
_MOST_COLUMNS = 1600
_LONGEST_VARCHAR = 10_485_760
_TAKEN = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})

# As format_type writes them, so that a column can be compared with what it should be.
_NAMES = {
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}


def pg_type(kind: ColumnType) -> str:
    """The type that holds all values of one of ours, as PostgreSQL itself writes it."""
    match kind:
        case Struct() | Array(Array() | Struct()):
            return "jsonb"
        case Array(element):
            return f"{pg_type(element)}[]"
        case Scalar(name) if limit := length_limit(kind):
            return f"character varying({limit})" if limit <= _LONGEST_VARCHAR else "text"
        case Scalar(name) if name.startswith("decimal"):
            return name.replace("decimal", "numeric")
        case Scalar(name) if name.startswith("time("):
            return f"{name} without time zone"
        case Scalar(name) if name.startswith("interval"):
            return "interval"
        case Scalar(name):
            return _NAMES[name]


@dataclass(frozen=True)
class Target:
    """A table in PostgreSQL that shows a stream table; `ledger` is the schema in which we note how far it is.

    With a key, its columns identify a row. Without one the table is a bag: equal rows may stand in it.
    """

    schema: str
    name: str
    stream: str
    columns: tuple[TableColumn, ...]
    warehouse: str
    key: tuple[str, ...] = ()
    ledger: str = LEDGER
    site: Site = UNKNOWN_SITE  # where the warehouse is that writes it
    source: str = ""  # the name under which the database is attached there

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        for name in (self.schema, self.name, self.ledger, *names):
            _check_name(name)
        if unknown := [k for k in self.key if k not in names]:
            raise ColumnNotFoundError(unknown[0], tuple(names))
        if not 0 < len(names) <= _MOST_COLUMNS:
            raise InvalidDefinitionError(
                f'"{self.stream}" has {len(names)} columns, which no table in PostgreSQL can have',
                f"Publish a stream table of 1 to {_MOST_COLUMNS} columns.",
            )

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def key_is_primary(self) -> bool:
        """Whether the key is a primary key there: its columns are never null."""
        return bool(self.key) and not any(c.nullable for c in self.columns if c.name in self.key)

    @property
    def identity(self) -> tuple[int, ...]:
        """The places of the columns by which a row is looked for: the key, or else all."""
        names = self.column_names
        return tuple(names.index(k) for k in self.key) or tuple(range(len(names)))


def target_for(table: Table, schema: str, name: str, warehouse: str, ledger: str = LEDGER) -> Target:
    """A target for a table of ours, with its key if that really identifies a row."""
    key = tuple(c.name for c in table.key_columns) if table.unique else ()
    return Target(schema, name, table.full_name, table.columns, warehouse, key, ledger)


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > _LONGEST_NAME or "\0" in name:
        raise InvalidDefinitionError(
            f'"{name}" is not a valid name in PostgreSQL', f"Choose a name of 1 to {_LONGEST_NAME} bytes."
        )
    if name in _TAKEN:
        raise InvalidDefinitionError(
            f'"{name}" is a reserved column name in PostgreSQL', "Give the column another name."
        )


# --- pieces of statements ------------------------------------------------------------------------

COMMA = sql.SQL(", ")


def list_fields(target: Target, row: str) -> sql.Composed:
    """The columns of the target, of a row of it."""
    return COMMA.join(sql.Identifier(row, name) for name in target.column_names)


def list_stored_fields(target: Target, row: str) -> sql.Composed:
    """The same of a table of ours, which has names of its own."""
    return COMMA.join(sql.Identifier(row, f"c{n}") for n in range(len(target.columns)))


def compose_hash(target: Target, row: str = "", own: bool = False) -> sql.Composed:
    """A number for what a row is looked for by; NULL is a value like others in it.

    No operator that takes NULL for NULL can use an index or a hash join, a number can.
    """
    return sql.SQL("hash_record_extended({}, 0)").format(compose_identity(target, row, own))


def compose_identity(target: Target, row: str = "", own: bool = False) -> sql.Composed:
    names = [f"c{n}" if own else target.column_names[n] for n in target.identity]
    prefix = (row,) if row else ()
    return sql.SQL("ROW({})").format(COMMA.join(sql.Identifier(*prefix, name) for name in names))


# Types whose = calls different values equal, and what tells them apart: −0.0 = 0.0, '1 day' = '24 hours'.
_IMAGES = {"real": "float4send", "double precision": "float8send", "interval": "interval_send"}


def compose_grouping_key(target: Target, row: str) -> sql.Composed:
    """What rows of ours are grouped by so that only those that are the same to the last bit fall together."""
    columns = [sql.Identifier(row, f"c{n}") for n in range(len(target.columns))]
    images = [
        sql.SQL("{}({})").format(sql.SQL(function), column)
        for column, c in zip(columns, target.columns, strict=True)
        if (function := _choose_image(c.type))
    ]
    return COMMA.join([*columns, *images])


def _choose_image(kind: ColumnType) -> str | None:
    shown = pg_type(kind)
    if shown == "jsonb":
        return "jsonb_send"
    inexact = holds_float(kind) or shown.startswith("interval")
    return ("array_send" if shown.endswith("[]") else _IMAGES[shown]) if inexact else None
