"""How changes are cut into statements and commits plays no part, and a change undone leaves no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spark_trickle
from spark_trickle.session import Trickle
from tests.laws.author import KEYS, shapes
from tests.laws.conditions import LIMITS, QUIET
from tests.laws.history import TABLE, Shape
from tests.laws.oracle import Bag
from tests.laws.phrases import Phrases
from tests.laws.run import content_of, feed_sum
from tests.laws.values import literal, name

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Load:
    """Rows for a new table in three parts, and rows that come and go again."""

    shape: Shape
    parts: tuple[Rows, Rows, Rows]
    passing: Rows

    def insert(self, rows: Rows) -> str:
        return f"INSERT INTO {TABLE} {Phrases.values(rows, self.shape.columns).spark}"

    def delete(self, rows: Rows) -> str:
        first = self.shape.column(self.shape.ids[0])
        values = ", ".join(literal(first.kind, row[first.name]).spark for row in rows)
        return f"DELETE FROM {TABLE} WHERE {name(first.name).spark} IN ({values})"


@st.composite
def loads(draw: st.DrawFn, keys: str) -> Load:
    shape = draw(shapes(keys))
    phrases = Phrases(draw, shape)
    first, second, third, passing = ([phrases.new_row() for _ in range(n)] for n in (3, 1, 4, 4))
    if not shape.unique:
        third.append(first[0])  # the same row from two batches
    return Load(shape, (first, second, third), passing)


def _new_table(tr: Trickle, shape: Shape) -> None:
    tr.sql(f"DROP TABLE IF EXISTS {TABLE}")
    tr.sql(shape.create.spark)


def _run(tr: Trickle, statements: Sequence[str], together: bool) -> None:
    if together:
        with tr.transaction():
            _run(tr, statements, together=False)
    else:
        for statement in statements:
            tr.sql(statement)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("keys", KEYS)
def test_one_batch_is_many(keys: str, limit: int, tmp_path: Path) -> None:
    rows_seen = 0
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": limit}) as tr:

        @settings(QUIET, max_examples=1, derandomize=True)
        @given(loads(keys))
        def law(load: Load) -> None:
            nonlocal rows_seen
            a, b, c = load.parts
            ways = {
                "one batch": ([load.insert(a + b + c)], False),
                "many batches": ([load.insert(a), load.insert(b), load.insert(c)], False),
                "another order": ([load.insert(c), load.insert(a + b)], False),
                "one transaction": ([load.insert(b), load.insert(c), load.insert(a)], True),
            }
            found: dict[str, tuple[Bag, Bag]] = {}
            for way, (statements, together) in ways.items():
                _new_table(tr, load.shape)
                start = tr.snapshot
                _run(tr, statements, together)
                found[way] = content_of(tr), feed_sum(tr, start)
            due = found["one batch"][0]
            assert due.total() == len(a + b + c)
            assert {way: f for way, f in found.items() if f != (due, due)} == {}, load.shape.create.spark
            rows_seen += due.total()

        law()
    assert rows_seen


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("keys", KEYS)
def test_undone_is_nothing(keys: str, limit: int, tmp_path: Path) -> None:
    """Insert and delete, and a key moved away and back: in one commit not even the feed tells."""
    rows_seen = 0
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": limit}) as tr:

        @settings(QUIET, max_examples=1, derandomize=True)
        @given(loads(keys))
        def law(load: Load) -> None:
            nonlocal rows_seen
            come_and_go = [load.insert(load.passing), load.delete(load.passing)]
            for together in (False, True):
                _new_table(tr, load.shape)
                tr.sql(load.insert(load.parts[0]))
                before, start = content_of(tr), tr.snapshot
                _run(tr, come_and_go, together)
                assert content_of(tr) == before, load.shape.create.spark
                assert feed_sum(tr, start) == Counter(), load.shape.create.spark
                if together:
                    assert tr.changes(TABLE, start).count() == 0, load.shape.create.spark
                rows_seen += before.total()

        law()
    assert rows_seen
