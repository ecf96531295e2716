"""The operators that only a change has: rows that come and go, touched keys, sums that are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Aggregate, Call, Operator, Output, SortKey
from spark_trickle.algebra.references import RoundRef


@dataclass(frozen=True)
class Signed(Operator):
    """Content as a change: every row comes, or every row goes. A change may be turned round."""

    input: Operator
    sign: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def weighted(self) -> bool:
        return True


@dataclass(frozen=True)
class Keys(Operator):
    """The values of some expressions in a change, as content; those that were touched."""

    input: Operator
    exprs: tuple[Expr, ...]
    distinct: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"k{n}" for n in range(len(self.exprs)))

    @property
    def weighted(self) -> bool:
        return False


@dataclass(frozen=True)
class Touched(Operator):
    """The rows of the input whose expressions have a touched value; null is a value like others."""

    input: Operator
    exprs: tuple[Expr, ...]
    keys: Operator

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def weighted(self) -> bool:
        return self.input.weighted


@dataclass(frozen=True)
class Terms(Operator):
    """What each row of a change adds to the sums of its group, or takes from them."""

    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(k.name for k in self.keys), *(c.name for c in self.calls), self.count)

    @property
    def weighted(self) -> bool:
        return False


@dataclass(frozen=True)
class Added(Operator):
    """The change of an algebraic aggregate: what is stored and what is added are one sum for each key.

    `own` may be a log: rows with weights that are not yet summed up. `here` says that all of it is so few
    rows that one task sums them.
    """

    terms: Operator
    own: Operator
    keys: tuple[str, ...]
    sums: tuple[Call, ...]
    count: str
    here: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.own.columns

    @property
    def weighted(self) -> bool:
        return True


@dataclass(frozen=True)
class Fold(Operator):
    """The change of an aggregate with extrema: own rows go, and come again with what the change adds.

    `partial` has the columns of the aggregate, computed over a change; `own` is what is stored.
    """

    partial: Operator
    own: Operator
    keys: tuple[str, ...]
    sums: tuple[Call, ...]
    count: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.own.columns

    @property
    def weighted(self) -> bool:
        return True


@dataclass(frozen=True)
class Counted(Operator):
    """An aggregate in which the rows that have an extremum are counted, which takes a second look at them."""

    input: Aggregate

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Untouched(Touched):
    """The rows of the input whose expressions have no touched value."""


@dataclass(frozen=True)
class Shaken(Operator):
    """The keys of groups that must be read again.

    One may lose an extremum: something goes that is not beyond the stored one. Another has values that its
    exact sums do not hold: `left_out` names the columns that count them.
    """

    partial: Operator
    own: Operator
    keys: tuple[str, ...]
    picks: tuple[Call, ...]
    ties: tuple[Call, ...]
    count: str
    left_out: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"k{n}" for n in range(len(self.keys)))

    @property
    def weighted(self) -> bool:
        return False


@dataclass(frozen=True)
class Partial(Operator):
    """Sums over a change: what each group gains or loses."""

    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str

    @property
    def columns(self) -> tuple[str, ...]:
        gone = (c.gone for c in self.calls if c.pick)
        return (*(k.name for k in self.keys), *(c.name for c in self.calls), *gone, self.count)

    @property
    def weighted(self) -> bool:
        return False


@dataclass(frozen=True)
class Net(Operator):
    """A change without what cancels out; every row still has weight +1 or −1, or each row is there once."""

    input: Operator
    single: bool = True  # false: equal rows are one row with the sum of their weights

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Trimmed(Operator):
    """A change; where it is few rows at the driver, without what cancels out.

    Values that a query does not show change as well: a group has more rows and the same maximum, a column
    is updated that nobody asks for. What is left of that must not be looked up in a large table. Spark
    takes the change as it is, because it would have to sort it first.
    """

    input: Operator

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Within(Operator):
    """The rows of a change that are not beyond the last row of a buffer; all, if it has less than it needs.

    Then it has all there are: it was made anew when it came below that, and found no more.
    """

    delta: Operator
    own: Operator
    order: tuple[SortKey, ...]
    need: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.delta.columns

    @property
    def weighted(self) -> bool:
        return True


@dataclass(frozen=True)
class Unfit(Operator):
    """One row if a buffer would have too few rows after a change, or far too many; otherwise none.

    One that had too few before has all there are.
    """

    within: Operator
    own: Operator
    least: int
    most: int

    @property
    def columns(self) -> tuple[str, ...]:
        return ("unfit",)

    @property
    def weighted(self) -> bool:
        return False


# --- rounds ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Half(Operator):
    """The rows of a change that come, or those that go, as content."""

    input: Operator
    sign: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def weighted(self) -> bool:
        return False


@dataclass(frozen=True)
class Different(Operator):
    """Every row of the input once."""

    input: Operator

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


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


@dataclass(frozen=True)
class Fixpoint(Operator):
    """Rows that take rounds to be found: a program, and what it answers.

    `again` is another way to the same rows, for when rounds do not end or lead to too many rows.
    """

    program: tuple[Assign | Rounds, ...]
    result: Operator
    again: Operator | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.result.columns

    @property
    def weighted(self) -> bool:
        return self.result.weighted

    def plans(self) -> Iterator[tuple[str, Operator]]:
        """Every plan of the program, and under which name its rows are kept."""
        for part in self.program:
            if isinstance(part, Assign):
                yield str(part.name), part.plan
            else:
                yield from ((f"{a.name} at first", a.plan) for a in part.start)
                yield from ((f"{a.name} in each round, added to {part.found}", a.plan) for a in part.body)

    def mapped(self, change: Callable[[Operator], Operator]) -> Fixpoint:
        """The same program with other plans."""

        def assigned(parts: tuple[Assign, ...]) -> tuple[Assign, ...]:
            return tuple(replace(a, plan=change(a.plan)) for a in parts)

        program = tuple(
            replace(p, start=assigned(p.start), body=assigned(p.body))
            if isinstance(p, Rounds)
            else replace(p, plan=change(p.plan))
            for p in self.program
        )
        again = None if self.again is None else change(self.again)
        return replace(self, program=program, result=change(self.result), again=again)
