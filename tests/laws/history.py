"""A history as data: a table, the steps that change it, and the SQL script that shows it to a reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.laws.values import Kind, Sql, joined, literal, name, sql

TABLE = "t"
# DuckDB updates in place and skips a value that equals the old one, so 0.0 would never become −0.0. A table
# with lists is updated by deletion and insertion: so the oracle's has one, assigned with every update.
TOUCHED = "_touched"


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    required: bool = False
    default: Any = None

    @property
    def definition(self) -> Sql:
        """For Spark alone: the other engine is always told every value."""
        text = f"{name(self.name).spark} {self.kind.type.spark}"
        text += " NOT NULL" if self.required else ""
        if self.default is not None:
            text += f" DEFAULT {literal(self.kind, self.default).spark}"
        return Sql(text, f"{name(self.name).duck} {self.kind.type.duck}")


@dataclass(frozen=True)
class Shape:
    """The columns of the table at one time; `ids` identify its rows, whether declared as a key or not."""

    columns: tuple[Column, ...]
    ids: tuple[str, ...]
    keyed: bool
    enforced: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def unique(self) -> bool:
        return self.keyed and self.enforced

    @property
    def required(self) -> tuple[str, ...]:
        keys = self.ids if self.unique else ()
        return tuple(c.name for c in self.columns if c.required or c.name in keys)

    def column(self, wanted: str) -> Column:
        return next(c for c in self.columns if c.name == wanted)

    def with_column(self, old: str, new: Column) -> Shape:
        columns = tuple(new if c.name == old else c for c in self.columns)
        return replace(self, columns=columns, ids=tuple(new.name if i == old else i for i in self.ids))

    @property
    def create(self) -> Sql:
        columns = joined([c.definition for c in self.columns])
        key = ""
        if self.keyed:
            key = f", PRIMARY KEY ({', '.join(name(i).spark for i in self.ids)})"
            key += "" if self.enforced else " NOT ENFORCED"
        return sql(f"CREATE TABLE {TABLE} ({{}}{{}})", columns, Sql(key, f", {TOUCHED} INTEGER[]"))


@dataclass(frozen=True)
class Statement:
    """One statement. `hits` is a query that finds rows it would change twice: then it must be refused."""

    kind: str
    text: Sql
    shape: Shape  # once it is done
    hits: str = ""

    @property
    def defines(self) -> bool:
        return self.text.spark.startswith("ALTER")


@dataclass(frozen=True)
class Transaction:
    statements: tuple[Statement, ...]
    commit: bool

    @property
    def kind(self) -> str:
        return "commit" if self.commit else "rollback"

    @property
    def end(self) -> str:
        return self.kind.upper()


@dataclass(frozen=True)
class Upkeep:
    """What changes no content: OPTIMIZE, VACUUM, or closing the connection and opening it again."""

    kind: str
    text: str = ""


Step = Statement | Transaction | Upkeep


@dataclass(frozen=True, repr=False)
class History:
    shape: Shape
    steps: tuple[Step, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Short: a failure shows the script."""
        return f"<history of {len(self.steps)} steps>"

    def script(self) -> str:
        lines = [f"-- settings: {self.settings}", f"{self.shape.create.spark};"]
        for number, step in enumerate(self.steps):
            lines += [f"{text}  -- step {number}" for text in _lines(step)]
        return "\n".join(lines)


def _lines(step: Step) -> Iterator[str]:
    match step:
        case Statement():
            yield f"{step.text.spark};"
        case Transaction():
            yield "BEGIN;"
            yield from (f"{s.text.spark};" for s in step.statements)
            yield f"{step.end};"
        case Upkeep():
            yield f"{step.text};" if step.text else "-- reconnect"
