"""The operators that only a change has: rows that come and go, touched keys, sums that are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Operator, Output, Rows
from spark_trickle.algebra.references import RoundRef
from spark_trickle.algebra.require import require, require_columns, require_different, require_known
from spark_trickle.algebra.stateful_operators import Aggregate, Call, SortKey


class ChangeOperator(Operator):
    """Stands only in the plan of a change, which is made for each refresh and never kept."""


def _name_keys(count: int) -> tuple[str, ...]:
    """What the columns of touched keys are called."""
    return tuple(f"k{n}" for n in range(count))


def _list_group_columns(keys: tuple[str, ...], calls: tuple[Call, ...], count: str) -> tuple[str, ...]:
    return (*keys, *(c.name for c in calls), count)


@dataclass(frozen=True)
class Signed(ChangeOperator):
    """Content as a change: every row comes, or every row goes. A change may be turned round."""

    gives = Rows.CHANGE
    empty_without_input = True
    runs_at_driver = True

    input: Operator
    sign: int

    def _check_shape(self) -> None:
        require(self.sign in (1, -1), self, f"has the sign {self.sign}")


@dataclass(frozen=True)
class Keys(ChangeOperator):
    """The values of some expressions in a change, as content; those that were touched."""

    gives = Rows.CONTENT
    empty_without_input = gives_keys = True
    runs_at_driver = True

    input: Operator
    exprs: tuple[Expr, ...]
    distinct: bool = True

    def _check_shape(self) -> None:
        require_columns(self, self.exprs, self.input.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return _name_keys(len(self.exprs))


@dataclass(frozen=True)
class Touched(ChangeOperator):
    """The rows of the input whose expressions have a touched value; null is a value like others."""

    runs_at_driver = True

    input: Operator
    exprs: tuple[Expr, ...]
    keys: Operator

    def _check_shape(self) -> None:
        wanted = self.keys.columns == _name_keys(len(self.exprs))
        require(not self.exprs or wanted, self, "looks up other keys than it has")
        require_columns(self, self.exprs, self.input.columns)


@dataclass(frozen=True)
class Terms(ChangeOperator):
    """What each row of a change adds to the sums of its group, or takes from them."""

    reads, gives = Rows.CHANGE, Rows.CONTENT
    empty_without_input = True
    runs_at_driver = True

    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str

    def _check_shape(self) -> None:
        require_different(self, self.columns)
        require_columns(self, (e.expr for e in (*self.keys, *self.calls)), self.input.columns)
        require_columns(self, (c.term for c in self.calls if c.term is not None), self.input.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return _list_group_columns(tuple(k.name for k in self.keys), self.calls, self.count)


@dataclass(frozen=True)
class Added(ChangeOperator):
    """The change of an algebraic aggregate: what is stored and what is added are one sum for each key.

    `own` may be a log: rows with weights that are not yet summed up. `here` says that all of it is so few
    rows that one task sums them.
    """

    gives = Rows.CHANGE
    empty_without_input = True
    runs_at_driver = True

    terms: Operator
    own: Operator
    keys: tuple[str, ...]
    sums: tuple[Call, ...]
    count: str
    here: bool = False

    def _check_shape(self) -> None:
        names = _list_group_columns(self.keys, self.sums, self.count)
        require_known(self, names, self.terms.columns)
        require_known(self, names, self.own.columns)

    def _check_rows(self) -> None:
        """What it has stored may be a log, which has weights."""
        require(not self.terms.weighted, self, "adds rows with weights, which are no sums")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.own.columns


@dataclass(frozen=True)
class Fold(ChangeOperator):
    """The change of an aggregate with extrema: own rows go, and come again with what the change adds.

    `partial` has the columns of the aggregate, computed over a change; `own` is what is stored.
    """

    reads, gives = Rows.CONTENT, Rows.CHANGE
    empty_without_input = True
    runs_at_driver = True

    partial: Operator
    own: Operator
    keys: tuple[str, ...]
    sums: tuple[Call, ...]
    count: str

    def _check_shape(self) -> None:
        names = _list_group_columns(self.keys, self.sums, self.count)
        require_known(self, names, self.partial.columns)
        require_known(self, names, self.own.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.own.columns


@dataclass(frozen=True)
class Counted(ChangeOperator):
    """An aggregate in which the rows that have an extremum are counted, which takes a second look at them."""

    reads = Rows.CONTENT
    empty_without_input = True
    runs_at_driver = True

    input: Aggregate

    def _check_shape(self) -> None:
        require(isinstance(self.input, Aggregate), self, "counts rows of what has no groups")


@dataclass(frozen=True)
class Untouched(Touched):
    """The rows of the input whose expressions have no touched value."""


@dataclass(frozen=True)
class Shaken(ChangeOperator):
    """The keys of groups that must be read again.

    One may lose an extremum: something goes that is not beyond the stored one. Another has values that its
    exact sums do not hold: `left_out` names the columns that count them.
    """

    reads = gives = Rows.CONTENT
    empty_without_input = gives_keys = True
    runs_at_driver = True

    partial: Operator
    own: Operator
    keys: tuple[str, ...]
    picks: tuple[Call, ...]
    ties: tuple[Call, ...]
    count: str
    left_out: tuple[str, ...] = ()

    def _check_shape(self) -> None:
        require(all(c.pick for c in self.picks), self, "looks for what has no extremum")
        require(all(c.ties_of for c in self.ties), self, "counts what no extremum has")
        names = (*_list_group_columns(self.keys, (*self.picks, *self.ties), self.count), *self.left_out)
        require_known(self, names, self.own.columns)
        require_known(self, (*names, *(c.deleted for c in self.picks)), self.partial.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return _name_keys(len(self.keys))


@dataclass(frozen=True)
class Partial(ChangeOperator):
    """Sums over a change: what each group gains or loses."""

    reads, gives = Rows.CHANGE, Rows.CONTENT
    read_twice = runs_at_driver = True

    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str

    def _check_shape(self) -> None:
        require_different(self, self.columns)
        require_columns(self, (e.expr for e in (*self.keys, *self.calls)), self.input.columns)
        require_columns(self, (c.term for c in self.calls if c.term is not None), self.input.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        deleted = (c.deleted for c in self.calls if c.pick)
        return (*(k.name for k in self.keys), *(c.name for c in self.calls), *deleted, self.count)

    @property
    def empty_without_input(self) -> bool:
        """Without keys it has one row, whatever there is."""
        return bool(self.keys)


@dataclass(frozen=True)
class Net(ChangeOperator):
    """A change without what cancels out; every row still has weight +1 or −1, or each row is there once."""

    reads = Rows.CHANGE
    empty_without_input = True
    runs_at_driver = True

    input: Operator
    single: bool = True  # false: equal rows are one row with the sum of their weights


@dataclass(frozen=True)
class Trimmed(ChangeOperator):
    """A change; where it is few rows at the driver, without what cancels out.

    Values that a query does not show change as well: a group has more rows and the same maximum, a column
    is updated that nobody asks for. What is left of that must not be looked up in a large table. Spark
    takes the change as it is, because it would have to sort it first.
    """

    reads = Rows.CHANGE
    empty_without_input = True
    narrows_changes = runs_at_driver = True

    input: Operator


@dataclass(frozen=True)
class Within(ChangeOperator):
    """The rows of a change that are not beyond the last row of a buffer; all, if it has less than it needs.

    Then it has all there are: it was made anew when it came below that, and found no more.
    """

    reads = gives = Rows.CHANGE
    empty_without_input = True
    runs_at_driver = True

    delta: Operator
    own: Operator
    order: tuple[SortKey, ...]
    need: int

    def _check_shape(self) -> None:
        require_known(self, self.delta.columns, self.own.columns)
        require_columns(self, (k.expr for k in self.order), self.delta.columns)
        require(bool(self.order) and self.need >= 0, self, "has no last row")


@dataclass(frozen=True)
class Unfit(ChangeOperator):
    """One row if a buffer would have too few rows after a change, or far too many; otherwise none.

    One that had too few before has all there are.
    """

    reads, gives = Rows.CHANGE, Rows.CONTENT
    gives_keys = True
    runs_at_driver = True

    within: Operator
    own: Operator
    least: int
    most: int

    def _check_shape(self) -> None:
        require(self.least <= self.most, self, "has room for less than it needs")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return ("unfit",)


# --- rounds ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Half(ChangeOperator):
    """The rows of a change that come, or those that go, as content."""

    reads, gives = Rows.CHANGE, Rows.CONTENT
    empty_without_input = True

    input: Operator
    sign: int

    def _check_shape(self) -> None:
        require(self.sign in (1, -1), self, f"has the sign {self.sign}")


@dataclass(frozen=True)
class Different(ChangeOperator):
    """Every row of the input once."""

    reads = Rows.CONTENT
    empty_without_input = True

    input: Operator


@dataclass(frozen=True)
class Assign:
    """Rows that are computed and kept under a name, which later plans scan."""

    name: RoundRef
    plan: Operator


@dataclass(frozen=True)
class Rounds:
    """`start` once, then `body` until it finds no row; all that `last` held is in `found`."""

    start: tuple[Assign, ...]
    body: tuple[Assign, ...]
    last: RoundRef
    found: RoundRef
    from_nothing: bool = False  # the body may find rows although the start has none

    def __post_init__(self) -> None:
        for part in (self.start, self.body):
            require(self.last in {a.name for a in part}, self, f"never keeps {self.last}")


@dataclass(frozen=True)
class Fixpoint(ChangeOperator):
    """Rows that take rounds to be found: a program, and what it answers.

    `again` is another way to the same rows, for when rounds do not end or lead to too many rows.
    """

    takes_rounds = True

    program: tuple[Assign | Rounds, ...]
    result: Operator
    again: Operator | None = None

    def _check_shape(self) -> None:
        again = self.result if self.again is None else self.again
        require(again.columns == self.result.columns, self, "has another way to other columns")

    def _check_rows(self) -> None:
        ways = {op.weighted for op in self.inputs}
        require(len(ways) == 1, self, "has content on one way and a change on another")

    def plans(self) -> Iterator[tuple[str, Operator]]:
        """Every plan of the program, and under which name its rows are kept."""
        for part in self.program:
            if isinstance(part, Assign):
                yield str(part.name), part.plan
            else:
                yield from ((f"{a.name} at first", a.plan) for a in part.start)
                yield from ((f"{a.name} in each round, added to {part.found}", a.plan) for a in part.body)

    def map_plans(self, change: Callable[[Operator], Operator]) -> Fixpoint:
        """The same program with other plans."""

        def map_assignments(parts: tuple[Assign, ...]) -> tuple[Assign, ...]:
            return tuple(replace(a, plan=change(a.plan)) for a in parts)

        program = tuple(
            replace(p, start=map_assignments(p.start), body=map_assignments(p.body))
            if isinstance(p, Rounds)
            else replace(p, plan=change(p.plan))
            for p in self.program
        )
        again = None if self.again is None else change(self.again)
        return replace(self, program=program, result=change(self.result), again=again)
