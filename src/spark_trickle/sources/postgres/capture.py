"""A table and the columns that are needed -> what is captured of it, under which names, and how."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError
from spark_trickle.sources.postgres.discover import ServerRelation, SourceColumn, SourceTable

SCHEMA = "trickle_changes"
Mode = Literal["statement", "row"]

_OWN_COLUMNS = ("change_id", "xid", "action", "changed_cols")
_MOST_COLUMNS = 1600 - len(_OWN_COLUMNS)
_MOST_PAIRED = 800  # an UPDATE pairs old and new rows, and a row of a query has at most 1664 columns
_LONGEST_SCHEMA = 40  # bytes; triggers are named after it


@dataclass(frozen=True)
class Capture:
    """What is captured of one table. The order of the columns is the order of the bits of `changed_cols`.

    With `guarded`, a write of the application never fails because of us: what could not be captured is
    noted as lost. The price is a subtransaction for each captured statement. `owner` is who reads the buffer:
    what is read is deleted, so there can be only one. With `notify`, whoever listens to the channel that is
    named after the schema hears of each commit.
    """

    source: SourceTable
    columns: tuple[SourceColumn, ...]
    mode: Mode = "statement"
    schema: str = SCHEMA
    unlogged: bool = False
    guarded: bool = True
    owner: str = ""
    notify: bool = False

    @property
    def buffer(self) -> sql.Identifier:
        return self.own_name(f"changes_{self.source.oid}")

    @property
    def change_ids(self) -> sql.Identifier:
        """The sequence of the buffer, under the name that the server gives to it."""
        return self.own_name(f"changes_{self.source.oid}_change_id_seq")

    @property
    def captures(self) -> sql.Identifier:
        return self.own_name("captures")

    @property
    def losses(self) -> sql.Identifier:
        return self.own_name("losses")

    @property
    def alive(self) -> sql.Identifier:
        return self.own_name("alive")

    def own_name(self, name: str) -> sql.Identifier:
        """Something of ours. Tables are known by id, so that a rename changes nothing here."""
        return sql.Identifier(self.schema, name)

    def function_name(self, event: str) -> str:
        return f"capture_{self.source.oid}_{event}"

    def function_sql(self, event: str) -> sql.Identifier:
        return self.own_name(self.function_name(event))

    def trigger_sql(self, event: str) -> sql.Identifier:
        return sql.Identifier(f"{self.schema}_{event}")

    @property
    def events(self) -> tuple[str, ...]:
        """One function and one trigger each."""
        return ("insert", "update", "delete", "truncate") if self.mode == "statement" else ("row", "truncate")

    def find_tables(self, event: str) -> tuple[ServerRelation, ...]:
        """Where the trigger sits: rows fire it through the root, TRUNCATE on the leaf that it empties."""
        partitioned = event == "truncate" and self.source.kind == "p"
        return self.source.partitions if partitioned else (self.source,)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def buffer_names(self) -> tuple[str, ...]:
        """The names of the columns in the buffer: their own, unless the buffer needs it itself."""
        names: list[str] = []
        for column in self.columns:
            name = column.name
            while name in _OWN_COLUMNS or name in names:
                name += "_"
            names.append(name)
        return tuple(names)


def plan_capture(
    table: SourceTable,
    needed: Collection[str] | None = None,
    mode: Mode = "statement",
    schema: str = SCHEMA,
    unlogged: bool = False,
    guarded: bool = True,
) -> Capture:
    """Capture the needed columns and the key; all that can be captured if `needed` is None."""
    if unknown := sorted(set(needed or ()) - set(table.column_names)):
        raise ColumnNotFoundError(unknown[0], table.column_names)
    stored = [c for c in table.columns if c.generated != "v"]
    wanted = {c.name for c in stored} if needed is None else {*needed, *table.key}
    columns = tuple(c for c in stored if c.name in wanted)
    _check_columns(table, columns, schema)
    return Capture(table, columns, choose_trigger_mode(table, columns, mode), schema, unlogged, guarded)


def choose_trigger_mode(table: SourceTable, columns: Sequence[SourceColumn], wanted: Mode) -> Mode:
    """Row triggers where a statement can change the table under another name, or its rows are too wide.

    A statement on a parent changes its children, and the other way round, but fires only the statement
    triggers of the table it names. Row triggers fire where the row is.
    """
    elsewhere = table.kind == "p" or table.inherits
    return "row" if elsewhere or len(columns) > _MOST_PAIRED else wanted


def _check_columns(table: SourceTable, columns: Sequence[SourceColumn], schema: str) -> None:
    if not columns:
        raise InvalidDefinitionError(
            f'table "{table.full_name}" has no column to capture', "Name at least one of its columns."
        )
    if len(columns) > _MOST_COLUMNS:
        raise InvalidDefinitionError(
            f'{len(columns)} columns of "{table.full_name}" are too many for a change buffer',
            f"Capture at most {_MOST_COLUMNS} of them.",
        )
    if len(schema.encode()) > _LONGEST_SCHEMA:
        raise InvalidDefinitionError(
            f'the schema name "{schema}" is too long',
            f"Choose a name of at most {_LONGEST_SCHEMA} bytes.",
        )
