"""What happened to some tables -> a case: the query, the batches, and what each should have changed; as text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb

from tests.cases.reader import Bag, Case, CaseError, CaseTable, Row, Step
from tests.laws.duck import duck_sql

Changes = dict[str, Bag]


@dataclass(frozen=True)
class Story:
    """Tables as they were at first, a query over them, and the batches that changed them since."""

    tables: tuple[CaseTable, ...]
    query: str
    batches: list[Changes] = field(default_factory=list)

    def smaller(self) -> Iterator[Story]:
        """The same with less: one batch, one row at first or one change is missing."""
        for n in reversed(range(len(self.batches))):
            yield replace(self, batches=self.batches[:n] + self.batches[n + 1 :])
        for n, table in enumerate(self.tables):
            for rows in _fewer(table.rows):
                tables = (*self.tables[:n], replace(table, rows=rows), *self.tables[n + 1 :])
                yield replace(self, tables=tables)
        for n, batch in enumerate(self.batches):
            for name, change in batch.items():
                for less in _fewer(change):
                    yield replace(
                        self, batches=[*self.batches[:n], {**batch, name: less}, *self.batches[n + 1 :]]
                    )

    @property
    def possible(self) -> bool:
        """Whether no row goes that is not there."""
        return all(n >= 0 for state in self.states() for bag in state.values() for n in bag.values())

    def states(self) -> Iterator[dict[str, Bag]]:
        """The content of the tables, at first and after each batch."""
        now = {t.name: Counter(t.rows) for t in self.tables}
        yield now
        for batch in self.batches:
            now = {name: Counter(rows) for name, rows in now.items()}
            for name, change in batch.items():
                now[name].update(change)
            yield now


def _fewer(bag: Bag) -> Iterator[Bag]:
    for row in sorted(bag, key=repr):
        yield Counter({r: n for r, n in bag.items() if r != row})


def shrunk(story: Story, fails: Callable[[Story], bool]) -> Story:
    """The story with as much left out as it can do without and still fail."""
    for less in story.smaller():
        if less.possible and fails(less):
            return shrunk(less, fails)
    return story


# --- what should have happened -------------------------------------------------------------------------


def told(story: Story, name: str) -> Case:
    """The story as a case: DuckDB says what each batch changes in the result."""
    answers = list(_answers(story))
    pairs = pairwise(answers)
    steps = [
        Step(batch, _difference(*pair), 0) for batch, pair in zip(story.batches, pairs, strict=True)
    ] or [Step({}, Counter(), 0)]
    return Case("chance", 1, name, story.tables, story.query, story.query, tuple(steps))


def _answers(story: Story) -> Iterator[Bag]:
    with duckdb.connect() as con:
        for state in story.states():
            for table in story.tables:
                _fill(con, table, state[table.name])
            found = con.execute(duck_sql(story.query)).fetchall()
            yield Counter(tuple(_plain(v) for v in row) for row in found)


def _fill(con: duckdb.DuckDBPyConnection, table: CaseTable, rows: Bag) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
    con.execute(f"CREATE OR REPLACE TABLE {table.name} ({columns})")
    for row in rows.elements():
        con.execute(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(row))})", row)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _difference(before: Bag, after: Bag) -> Bag:
    return Counter({row: after[row] - before[row] for row in before | after if after[row] != before[row]})


# --- text ----------------------------------------------------------------------------------------------


def case_text(case: Case) -> str:
    """A case as it stands in a case file."""
    lines = [f"# {case.name}", *(_table(t) for t in case.tables), f"view  {_one_line(case.view)}"]
    lines += [f"oracle {_one_line(case.oracle)}"] if case.oracle != case.view else []
    for step in case.steps:
        changes = "   ".join(f"{name} {_signed(bag)}" for name, bag in step.changes.items() if bag)
        lines += [f"step  {changes}".rstrip(), f"delta {_signed(step.delta)}".rstrip()]
    return "\n".join(lines) + "\n"


def _table(table: CaseTable) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
    rows = " ".join(_row(r) for r in sorted(table.rows.elements(), key=_order))
    return f"table {table.name}({columns})   {rows}".rstrip()


def _signed(bag: Bag) -> str:
    """What goes first, then what comes; a row several times if it does so several times."""
    rows = sorted(bag, key=lambda row: (bag[row] > 0, _order(row)))
    return " ".join(f"{'+' if bag[r] > 0 else '-'}{_row(r)}" for r in rows for _ in range(abs(bag[r])))


def _order(row: Row) -> tuple[tuple[bool, str, Any], ...]:
    return tuple((v is None, type(v).__name__, 0 if v is None else v) for v in row)


def _row(row: Row) -> str:
    return f"({', '.join(_value(v) for v in row)})"


def _value(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str() if "'" not in value and "\n" not in value:
            return f"'{value}'"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            text = format(Decimal(repr(value)), "f")
            return text if "." in text else f"{text}.0"
    raise CaseError(f"{value!r} cannot stand in a case")


def _one_line(sql: str) -> str:
    return re.sub(r"\s*\n\s*", " ", sql).strip()
