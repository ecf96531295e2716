"""Random parts of statements: values, rows, expressions and predicates that fit the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.laws.history import TABLE, TOUCHED, Column, Shape
from tests.laws.values import Sql, joined, literal, name, sql

T = TypeVar("T")
_COMPARISONS: tuple[Sql | str, ...] = ("=", "<>", "<", ">=", Sql("<=>", "IS NOT DISTINCT FROM"))


def touching(assignments: Sql) -> Sql:
    """Assignments as the oracle needs them."""
    return Sql(assignments.spark, f"{assignments.duck}, {TOUCHED} = []")


@dataclass
class Phrases:
    """Draws phrases for the table as it is now; remembers which numbers already identify rows."""

    draw: st.DrawFn
    shape: Shape
    oldest: int = 0  # rows of lower numbers are surely gone
    numbers: int = 0

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def often(self, share: float) -> bool:
        """True with a likelihood; the simplest draw is False."""
        return self.draw(st.integers(0, 99)) >= 100 * (1 - share)

    # --- rows ------------------------------------------------------------------------------------

    def value(self, column: Column) -> Any:
        if not column.required and self.often(0.15):
            return None
        return self.pick(column.kind.pool)

    def row(self, fresh: float) -> dict[str, Any]:
        """Values for all columns; new to the table with a likelihood, else meeting an earlier row."""
        values = {c.name: self.value(c) for c in self.shape.columns}
        return {**values, **self.identity(self.number(fresh))}

    def number(self, fresh: float) -> int:
        is_new = self.often(fresh) if fresh < 0.5 else not self.often(1 - fresh)
        if is_new or self.oldest == self.numbers:
            self.numbers += 1
            return self.numbers - 1
        return self.known()

    def known(self) -> int:
        """The number of a row that is probably there; the simplest draw is the newest."""
        newest = max(self.oldest, self.numbers - 1)
        return newest - self.draw(st.integers(0, newest - self.oldest))

    def identity(self, number: int) -> dict[str, Any]:
        kinds = [self.shape.column(i).kind for i in self.shape.ids]
        if len(kinds) == 1:
            lost = not self.shape.unique and self.often(0.1)
            return {self.shape.ids[0]: None if lost else kinds[0].number(number)}
        whole, rest = divmod(number, 2)
        return dict(zip(self.shape.ids, (kinds[0].number(whole), kinds[1].number(rest)), strict=True))

    def rows(self, most: int) -> list[dict[str, Any]]:
        count = self.pick([n for n in (3, 1, 2, 4, 5) if n <= most])
        found = [self.row(0.9 if self.shape.unique else 0.5) for _ in range(count)]
        if not self.shape.unique and self.often(0.4):
            found.append(self.pick(found))
        return found

    def new_row(self) -> dict[str, Any]:
        """A row that no other equals, and that can be found again."""
        kinds = [(i, self.shape.column(i).kind) for i in self.shape.ids]
        number = self.number(1.0)
        return {**self.row(1.0), **{i: kind.number(number) for i, kind in kinds}}

    @staticmethod
    def values(rows: list[dict[str, Any]], columns: Sequence[Column]) -> Sql:
        lines = [sql("({})", joined([literal(c.kind, row[c.name]) for c in columns])) for row in rows]
        return sql("VALUES {}", joined(lines))

    def relation(self, rows: list[dict[str, Any]]) -> Sql:
        """A query over given rows, with the columns of the table."""
        names = joined([name(c) for c in self.shape.names])
        return sql("SELECT * FROM ({}) AS v({})", self.values(rows, self.shape.columns), names)

    # --- expressions -----------------------------------------------------------------------------

    def expression(self, column: Column, prefix: str = "", other: str = "") -> Sql:
        """A new value for a column: a constant, a step from the old one, or another column of its type."""
        alike = [c.name for c in self.shape.columns if c.kind == column.kind]
        choices = [literal(column.kind, self.value(column)), name(self.pick(alike), prefix)]
        choices += [sql(s, name(column.name, prefix)) for s in column.kind.steps]
        if other:
            choices += [name(self.pick(alike), other)] * 3
        return self.pick(choices)

    def plain_columns(self) -> list[Column]:
        return [c for c in self.shape.columns if c.name not in self.shape.ids]

    def own_columns(self, shifted: bool) -> Sql:
        """All columns, the first that identifies a row moved away from where it was if wished."""
        moved = self.shape.ids[0] if shifted else ""
        steps = [c.kind.steps[0] if c.name == moved else "{}" for c in self.shape.columns]
        pairs = zip(steps, self.shape.names, strict=True)
        return joined([sql("{} AS {}", sql(step, name(n)), name(n)) for step, n in pairs])

    def some_columns(self) -> list[Column]:
        """At least one, and none that identifies a row."""
        names = [c.name for c in self.plain_columns()]
        chosen = self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        return [self.shape.column(n) for n in chosen]

    # --- predicates ------------------------------------------------------------------------------

    def predicate(self, prefix: str = "", deep: bool = True) -> Sql:
        """A condition that meets none, one, some or all rows."""
        choices = [self._identified, self._compared, self._compared, self._null, self._among]
        if deep:
            choices += [self._combined, self._negated, self._nested, self._constant]
        return self.pick(choices)(prefix)

    def _constant(self, prefix: str) -> Sql:
        return sql(self.pick(["true", "false"]))

    def _scalar(self) -> Column:
        return self.pick([c for c in self.shape.columns if c.kind.scalar])

    def _some(self, column: Column) -> Any:
        """A value that may well be there."""
        kind = column.kind
        if column.name in self.shape.ids:
            return kind.number(self.known())
        return self.pick(kind.pool)

    def _compared(self, prefix: str) -> Sql:
        column = self._scalar()
        value = literal(column.kind, self._some(column))
        return sql("{} {} {}", name(column.name, prefix), self.pick(_COMPARISONS), value)

    def _identified(self, prefix: str) -> Sql:
        """The whole identity: at most one row of a table with a key."""
        values = self.identity(self.known())
        parts = [
            sql("{} = {}", name(i, prefix), literal(self.shape.column(i).kind, v)) for i, v in values.items()
        ]
        return joined(parts, " AND ")

    def _null(self, prefix: str) -> Sql:
        column = self.pick(self.shape.columns)
        return sql("{} IS {} NULL", name(column.name, prefix), self.pick(["NOT", ""]))

    def _among(self, prefix: str) -> Sql:
        column = self._scalar()
        values = [literal(column.kind, self._some(column)) for _ in range(self.draw(st.integers(1, 3)))]
        return sql("{} {} IN ({})", name(column.name, prefix), self.pick(["", "NOT"]), joined(values))

    def _combined(self, prefix: str) -> Sql:
        left, right = self.predicate(prefix, False), self.predicate(prefix, False)
        return sql("({}) {} ({})", left, self.pick(["OR", "AND"]), right)

    def _negated(self, prefix: str) -> Sql:
        return sql("NOT ({})", self.predicate(prefix, False))

    def _nested(self, prefix: str) -> Sql:
        """The statement's own table again, in a subquery."""
        first = self.shape.ids[0]
        where = self.predicate("u.", False)
        inner = sql(f"SELECT {{}} FROM {TABLE} AS u WHERE {{}}", name(first, "u."), where)
        return sql("{} IN ({})", name(first, prefix), inner)
