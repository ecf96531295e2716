"""Every error a user can meet: fields in, message and hint out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, ClassVar


class Kind(Enum):
    """Whose turn it is after the error; the value is the exit code of the command line."""

    USER = 2
    UNSUPPORTED = 3
    TRANSIENT = 4
    ENVIRONMENT = 5
    BUG = 70


def _rebuild(cls: type[TrickleError], values: dict[str, Any]) -> TrickleError:
    return cls(**values)


@dataclass(eq=False)
class TrickleError(Exception):
    """The base of all errors of this package."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    kind: ClassVar[Kind] = Kind.BUG

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def message(self) -> str:
        return "internal error"

    @property
    def hint(self) -> str:
        return "Please report this with the statement that caused it."

    @property
    def retryable(self) -> bool:
        return self.kind is Kind.TRANSIENT

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}\nHint: {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., TrickleError], tuple[Any, ...]]:
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


def short(text: str, most: int = 100) -> str:
    """A value as an error shows it: long ones lose their middle."""
    return text if len(text) <= most else f"{text[: most - 20]} … {text[-15:]}"


def _closest(name: str, available: tuple[str, ...], noun: str) -> str:
    if close := get_close_matches(name.split(".")[-1].lower(), [a.lower() for a in available], n=1):
        original = next(a for a in available if a.lower() == close[0])
        return f'Did you mean "{original}"?'
    if not available:
        return f"There are no {noun} yet."
    return f"The {noun} are {', '.join(sorted(available)[:20])}."


@dataclass(eq=False)
class InternalError(TrickleError):
    detail: str

    @property
    def message(self) -> str:
        return f"internal error: {self.detail}"


# --- what the user wrote -------------------------------------------------------------------------


@dataclass(eq=False)
class SqlSyntaxError(TrickleError):
    detail: str
    line: int = 0
    column: int = 0
    advice: str = "Check the statement at this place."
    code: ClassVar[str] = "SYNTAX_ERROR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        where = f" at line {self.line}, column {self.column}" if self.line else ""
        return f"syntax error{where}: {self.detail}"

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class UnsupportedError(TrickleError):
    feature: str
    advice: str
    code: ClassVar[str] = "UNSUPPORTED"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f"{self.feature} is not supported"

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class QueryError(TrickleError):
    """Spark refused or could not run the statement."""

    detail: str
    condition: str
    advice: str = "Correct the statement and run it again; nothing was changed."
    code: ClassVar[str] = "QUERY_ERROR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"{self.condition}: {self.detail}" if self.condition else self.detail

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class TableNotFoundError(TrickleError):
    name: str
    available: tuple[str, ...] = ()
    code: ClassVar[str] = "TABLE_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'table "{self.name}" does not exist'

    @property
    def hint(self) -> str:
        return _closest(self.name, self.available, "tables")


@dataclass(eq=False)
class SchemaNotFoundError(TrickleError):
    name: str
    available: tuple[str, ...] = ()
    code: ClassVar[str] = "SCHEMA_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'schema "{self.name}" does not exist'

    @property
    def hint(self) -> str:
        return _closest(self.name, self.available, "schemas")


@dataclass(eq=False)
class ColumnNotFoundError(TrickleError):
    column: str
    available: tuple[str, ...] = ()
    code: ClassVar[str] = "COLUMN_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'column "{self.column}" does not exist'

    @property
    def hint(self) -> str:
        return _closest(self.column, self.available, "columns")


@dataclass(eq=False)
class ReadOnlyTableError(TrickleError):
    table: str
    code: ClassVar[str] = "READ_ONLY_TABLE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'"{self.table}" is a stream table and cannot be changed directly'

    @property
    def hint(self) -> str:
        return "Change its source tables, or its query with ALTER STREAM TABLE … AS SELECT …."


@dataclass(eq=False)
class SourceLostError(TrickleError):
    """A stream table cannot go on because of what happened to a table it reads."""

    table: str
    detail: str
    code: ClassVar[str] = "SOURCE_LOST"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the source "{self.table}" {self.detail}'

    @property
    def hint(self) -> str:
        return "Change the query with ALTER STREAM TABLE … AS SELECT …, or drop the stream table."


@dataclass(eq=False)
class CircularError(TrickleError):
    path: tuple[str, ...]
    code: ClassVar[str] = "CIRCULAR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"a stream table would read itself: {' -> '.join(self.path)}"

    @property
    def hint(self) -> str:
        return "Break the circle: let one of them read a table instead."


@dataclass(eq=False)
class FuseBlownError(TrickleError):
    table: str
    rows: int
    ceiling: int
    code: ClassVar[str] = "FUSE_BLOWN"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the fuse of "{self.table}" is blown: {self.rows} changed rows, its ceiling is {self.ceiling}'

    @property
    def hint(self) -> str:
        return "Look at what changed; then reset_fuse() applies it, or fills the stream table anew."


@dataclass(eq=False)
class RecursionTooDeepError(TrickleError):
    table: str
    limit: int
    code: ClassVar[str] = "RECURSION_TOO_DEEP"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the recursion of "{self.table}" does not end within {self.limit} steps'

    @property
    def hint(self) -> str:
        return "Use UNION instead of UNION ALL where rows form a cycle, or SET trickle.max_recursion_depth."


@dataclass(eq=False)
class InUseError(TrickleError):
    """A change of a table that stream tables depend on."""

    table: str
    change: str
    users: tuple[str, ...]
    code: ClassVar[str] = "IN_USE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        names = ", ".join(f'"{u}"' for u in self.users)
        return f'"{self.table}" cannot be {self.change}: stream tables depend on it: {names}'

    @property
    def hint(self) -> str:
        return "Drop these stream tables first, or SET trickle.block_source_ddl = false."


@dataclass(eq=False)
class AlreadyExistsError(TrickleError):
    noun: str
    name: str
    code: ClassVar[str] = "ALREADY_EXISTS"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'{self.noun} "{self.name}" already exists'

    @property
    def hint(self) -> str:
        return "Choose another name, use IF NOT EXISTS, or drop it first."


@dataclass(eq=False)
class InvalidDefinitionError(TrickleError):
    detail: str
    advice: str
    code: ClassVar[str] = "INVALID_DEFINITION"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class TypeNotAllowedError(TrickleError):
    column: str
    type: str
    advice: str
    code: ClassVar[str] = "TYPE_NOT_ALLOWED"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f'column "{self.column}" has type {self.type}, which a table cannot hold'

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class TypeMismatchError(TrickleError):
    column: str
    expected: str
    found: str
    code: ClassVar[str] = "TYPE_MISMATCH"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'column "{self.column}" is of type {self.expected}, but the value is of type {self.found}'

    @property
    def hint(self) -> str:
        return f"Convert the value yourself, for example CAST(… AS {self.expected})."


@dataclass(eq=False)
class NotNullViolationError(TrickleError):
    table: str
    column: str
    rows: tuple[str, ...]
    code: ClassVar[str] = "NOT_NULL_VIOLATION"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'null value in column "{self.column}" of table "{self.table}": {"; ".join(self.rows)}'

    @property
    def hint(self) -> str:
        return f'Give "{self.column}" a value, or declare it without NOT NULL.'


@dataclass(eq=False)
class DuplicateKeyError(TrickleError):
    table: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    code: ClassVar[str] = "DUPLICATE_KEY"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return (
            f'duplicate primary key in table "{self.table}": '
            f"({', '.join(self.key)}) = {', '.join(self.values)} would exist more than once"
        )

    @property
    def hint(self) -> str:
        return "Use MERGE to update rows that exist, or remove the duplicates from the input."


@dataclass(eq=False)
class MergeCardinalityError(TrickleError):
    table: str
    rows: tuple[str, ...]
    code: ClassVar[str] = "MERGE_CARDINALITY_VIOLATION"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'several source rows match one row of "{self.table}": {"; ".join(self.rows)}'

    @property
    def hint(self) -> str:
        return "Make the join condition or the source unique, for example with DISTINCT or GROUP BY."


@dataclass(eq=False)
class ValueTooLongError(TrickleError):
    column: str
    type: str
    value: str
    code: ClassVar[str] = "VALUE_TOO_LONG"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the value "{self.value}" is too long for column "{self.column}" of type {self.type}'

    @property
    def hint(self) -> str:
        return "Shorten the value, or widen the column with ALTER TABLE … ALTER COLUMN … TYPE STRING."


@dataclass(eq=False)
class SnapshotNotFoundError(TrickleError):
    snapshot: str
    oldest: int
    newest: int
    code: ClassVar[str] = "SNAPSHOT_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"there is no snapshot {self.snapshot}"

    @property
    def hint(self) -> str:
        return (
            f"The warehouse holds snapshots {self.oldest} to {self.newest}; "
            "older ones were removed by VACUUM. SELECT * FROM trickle.snapshots() lists them."
        )


@dataclass(eq=False)
class SettingError(TrickleError):
    name: str
    detail: str
    available: tuple[str, ...] = ()
    advice: str | None = None
    code: ClassVar[str] = "INVALID_SETTING"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'setting "{self.name}": {self.detail}'

    @property
    def hint(self) -> str:
        return self.advice or _closest(self.name, self.available, "settings")


@dataclass(eq=False)
class TransactionStateError(TrickleError):
    detail: str
    advice: str
    code: ClassVar[str] = "TRANSACTION_STATE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


# --- what others did meanwhile -------------------------------------------------------------------


@dataclass(eq=False)
class ConflictError(TrickleError):
    table: str
    read_snapshot: int
    other_snapshot: int
    change: str
    code: ClassVar[str] = "CONFLICT"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return (
            f'"{self.table}" was {self.change} by snapshot {self.other_snapshot} '
            f"after this transaction read snapshot {self.read_snapshot}; nothing of it was written"
        )

    @property
    def hint(self) -> str:
        return "Run the transaction again: it will see the newer data."


@dataclass(eq=False)
class CatalogBusyError(TrickleError):
    catalog: str
    seconds: float
    code: ClassVar[str] = "CATALOG_BUSY"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return f"the catalog {self.catalog} was locked by another process for {self.seconds:g} seconds"

    @property
    def hint(self) -> str:
        return (
            "Try again; if it stays locked, look for a process that holds it open, or raise catalog_timeout."
        )


# --- where we run --------------------------------------------------------------------------------


@dataclass(eq=False)
class WarehouseError(TrickleError):
    """The folder, catalog or disk does not let us work."""

    detail: str
    advice: str
    code: ClassVar[str] = "WAREHOUSE_UNAVAILABLE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class VersionError(TrickleError):
    found: str
    known: str
    code: ClassVar[str] = "WAREHOUSE_TOO_NEW"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"the warehouse has catalog version {self.found}, this release knows {self.known}"

    @property
    def hint(self) -> str:
        return "Install a newer spark-trickle; opening it with this one could damage it."


@dataclass(eq=False)
class DamagedFileError(TrickleError):
    table: str
    path: str
    detail: str
    code: ClassVar[str] = "DAMAGED_FILE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        of_table = f' of table "{self.table}"' if self.table else ""
        return f"a data file{of_table} is damaged: {self.path} {self.detail}"

    @property
    def hint(self) -> str:
        return "Restore the file from a backup; snapshots that do not need it can still be read."
