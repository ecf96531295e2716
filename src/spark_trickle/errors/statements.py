"""Errors in what the user wrote: statements, names, definitions, values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_trickle.errors.base import AdvisedError, Kind, TrickleError, WordedError, suggest_closest


@dataclass(eq=False)
class SqlSyntaxError(AdvisedError):
    detail: str
    line: int = 0
    column: int = 0
    advice: str = "Check the statement at this position."
    code: ClassVar[str] = "SYNTAX_ERROR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        where = f" at line {self.line}, column {self.column}" if self.line else ""
        return f"syntax error{where}: {self.detail}"


def _describe_place(place: tuple[int, int]) -> str:
    return f", at line {place[0]}, column {place[1]}" if place[0] else ""


@dataclass(eq=False)
class UnsupportedError(AdvisedError):
    feature: str
    advice: str
    place: tuple[int, int] = (0, 0)  # line and column in the statement, if known
    code: ClassVar[str] = "UNSUPPORTED"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f"{self.feature} is not supported{_describe_place(self.place)}"


@dataclass(eq=False)
class QueryError(AdvisedError):
    """Spark refused or could not run the statement."""

    detail: str
    condition: str
    advice: str = "Correct the statement and run it again; nothing was changed."
    by_value: bool = False  # a value is to blame, such as a divisor of zero, and not the statement itself
    code: ClassVar[str] = "QUERY_ERROR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"{self.condition}: {self.detail}" if self.condition else self.detail


@dataclass(eq=False)
class ResultTooLargeError(TrickleError):
    """Spark refused to bring so many rows to the driver, or ran out of memory while doing so."""

    detail: str
    code: ClassVar[str] = "RESULT_TOO_LARGE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"Spark does not have enough memory for this result: {self.detail}"

    @property
    def hint(self) -> str:
        return (
            "Ask for fewer rows or columns, keep the result in a table (CREATE TABLE … AS), or start Spark "
            "with more spark.driver.memory and spark.driver.maxResultSize."
        )


@dataclass(eq=False)
class TableNotFoundError(TrickleError):
    """No table has this name, or something of another kind has it."""

    name: str
    available: tuple[str, ...] = ()
    wanted: str = "table"
    found: str = ""  # what has this name instead: a table, a view or a stream table
    snapshot: int | None = None  # where the statement looked for it, if not in the newest snapshot
    code: ClassVar[str] = "TABLE_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        if self.found:
            return f'"{self.name}" is a {self.found}, not a {self.wanted}'
        at = "" if self.snapshot is None else f" in snapshot {self.snapshot}"
        return f'{self.wanted} "{self.name}" does not exist{at}'

    @property
    def hint(self) -> str:
        if self.wanted == "view" and self.found:
            return f"Use DROP {self.found.upper()} to drop it."
        if self.snapshot is not None:
            return (
                "Name a snapshot that has the table; SELECT * FROM trickle.snapshots() lists all snapshots."
            )
        if self.found == "view":
            return "Name one of the tables that the view reads; DROP VIEW drops the view."
        return suggest_closest(self.name, self.available, f"{self.wanted}s")


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
        return suggest_closest(self.name, self.available, "schemas")


@dataclass(eq=False)
class ColumnNotFoundError(TrickleError):
    column: str
    available: tuple[str, ...] = ()
    place: tuple[int, int] = (0, 0)
    code: ClassVar[str] = "COLUMN_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'column "{self.column}" does not exist{_describe_place(self.place)}'

    @property
    def hint(self) -> str:
        return suggest_closest(self.column, self.available, "columns")


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
class InvalidDefinitionError(WordedError):
    place: tuple[int, int] = (0, 0)
    code: ClassVar[str] = "INVALID_DEFINITION"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"{self.detail}{_describe_place(self.place)}"


@dataclass(eq=False)
class TypeNotAllowedError(AdvisedError):
    column: str
    type: str
    advice: str
    code: ClassVar[str] = "TYPE_NOT_ALLOWED"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f'column "{self.column}" has type {self.type}, which a table cannot hold'


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
        return f'more than one source row matches the same row of "{self.table}": {"; ".join(self.rows)}'

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
            f"The warehouse has snapshots {self.oldest} to {self.newest}; VACUUM deletes older ones. "
            "SELECT * FROM trickle.snapshots() lists them."
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
        return self.advice or suggest_closest(self.name, self.available, "settings")


@dataclass(eq=False)
class TransactionStateError(WordedError):
    code: ClassVar[str] = "TRANSACTION_STATE"
    kind: ClassVar[Kind] = Kind.USER
