"""The operators that keep rows in a table of their own: groups, windows, first rows, recursions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Operator, Output, Rows
from spark_trickle.algebra.references import RoundRef
from spark_trickle.algebra.require import require, require_different, require_known


@dataclass(frozen=True)
class Call(Output):
    """An aggregate function: the expression is the call as Spark understands it.

    An algebraic one is a sum over rows: `term` is what each row adds (see `Fold`). For an extremum `term`
    is the value of a row, and `pick` says which of them is wanted: min or max. Beside it stands a call that
    tells how many rows are known to have that value, `ties_of` it: at least one, more once they were counted.

    Some values do not fit into exact sums. `again_if` names the call that counts them: while a group has any,
    this call is computed from all of its rows, otherwise it is null.
    """

    term: Expr | None = None
    type: str = ""  # of the sum or the extremum
    pick: str = ""
    ties_of: str = ""
    again_if: str = ""
    combine: str = "sum"  # or bit_xor, which takes a row away as it adds it

    def __post_init__(self) -> None:
        require(self.pick in ("", "min", "max"), self, f"picks {self.pick}")
        require(self.combine in ("sum", "bit_xor"), self, f"combines by {self.combine}")
        require(not self.pick or self.term is not None, self, "picks none of its values")
        require(sum(map(bool, (self.pick, self.ties_of, self.again_if))) < 2, self, "is two things at once")

    @property
    def is_total(self) -> bool:
        """Whether the stored value and that of the change make the new value."""
        return self.term is not None and not self.pick and not self.ties_of and not self.again_if

    @property
    def inexact(self) -> bool:
        """Whether the sum depends on the order of what is added."""
        return self.type.lower() in ("float", "double") and not self.again_if

    @property
    def deleted(self) -> str:
        """In a partial aggregate: the extremum of the deleted rows, beside that of the inserted ones."""
        return f"{self.name}_deleted"


@dataclass(frozen=True)
class Aggregate(Operator):
    """One row for each different key; without keys exactly one row."""

    reads = Rows.CONTENT
    rows_differ = True
    keeps_rows = runs_at_driver = True

    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str  # the column that holds how many rows a group has

    def _check_shape(self) -> None:
        require_different(self, self.columns)
        require_known(
            self, {name for c in self.calls for name in (c.ties_of, c.again_if) if name}, self.columns
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*(k.name for k in self.keys), *(c.name for c in self.calls), self.count)

    @property
    def empty_without_input(self) -> bool:
        """Without keys it has one row, whatever there is."""
        return bool(self.keys)

    @property
    def algebraic(self) -> bool:
        """Whether the change of a group follows from the change of its rows alone."""
        return all(c.is_total for c in self.calls)

    @property
    def foldable(self) -> bool:
        """The same, but for groups that lose an extremum or have values that no exact sum holds."""
        return all(c.term is not None for c in self.calls)


@dataclass(frozen=True)
class Window(Operator):
    """Every row of the input with values computed over the rows of its partition."""

    reads = Rows.CONTENT
    passes_rows = passes_columns = empty_without_input = True
    keeps_rows = shares_table = True

    input: Operator
    partition: tuple[Expr, ...]
    outputs: tuple[Output, ...]

    def _check_shape(self) -> None:
        require(bool(self.outputs), self, "computes nothing")
        require_different(self, self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + tuple(o.name for o in self.outputs)


@dataclass(frozen=True)
class SortKey:
    expr: Expr
    descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{self.expr.sql} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True)
class TopK(Operator):
    """The rows from `offset` on, at most `limit` of them, in an order."""

    reads = Rows.CONTENT
    passes_rows = passes_columns = empty_without_input = True
    keeps_rows = shares_table = runs_at_driver = True

    input: Operator
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    buffered: bool = False  # the input is a buffer, which is small

    def _check_shape(self) -> None:
        require(self.offset >= 0 and (self.limit is None or self.limit >= 0), self, "counts below zero")


@dataclass(frozen=True)
class Buffer(Operator):
    """The first `keep` rows in an order of everything, and all that equal the last of them.

    It holds more than the `need` rows that are wanted of it, so that some may go without a look at the rest.
    """

    reads = Rows.CONTENT
    passes_rows = passes_columns = empty_without_input = True
    keeps_rows = runs_at_driver = True

    input: Operator
    order: tuple[SortKey, ...]
    need: int
    keep: int

    def _check_shape(self) -> None:
        require(bool(self.order), self, "has no order")
        require(0 <= self.need <= self.keep, self, "keeps less than it needs")

    @property
    def most(self) -> int:
        """Rows beyond which it is made anew: those that come are never taken out otherwise."""
        return 4 * self.keep


@dataclass(frozen=True)
class Materialized(Operator):
    """The rows of the input, kept in a table of their own: whoever reads them sees only net changes."""

    row_by_row = maps_changes = passes_rows = passes_columns = empty_without_input = True
    keeps_rows = runs_at_driver = True

    input: Operator


@dataclass(frozen=True)
class Recursive(Operator):
    """The least set, or the bag level by level, that holds `base` and everything `step` derives from it.

    `step` reads the rows found last through a scan of `source`.
    """

    reads = Rows.CONTENT
    keeps_rows = takes_rounds = True

    base: Operator
    step: Operator
    source: RoundRef
    distinct: bool

    def _check_shape(self) -> None:
        require(len(self.base.columns) == len(self.step.columns), self, "has a step of another width")
        require(self.source not in self.base.sources, self, "starts with the rows that it finds")
