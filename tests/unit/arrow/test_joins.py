"""Joins at the driver: every kind against pairs counted one by one, and values that are in too many rows."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from spark_trickle.algebra.expressions import Comparison, Expr
from spark_trickle.algebra.operators import At, Join, JoinKind, KeyPair, Scan, column
from spark_trickle.algebra.references import TableRef
from spark_trickle.arrow import joins
from spark_trickle.arrow.joins import find_matches, join_rows
from spark_trickle.arrow.unsupported import ForSpark

LEFT = Scan(TableRef(1), (("a", "a"), ("b", "b")), At.NEW)
RIGHT = Scan(TableRef(2), (("c", "c"), ("d", "d")), At.NEW)


def _join(kind: JoinKind, null_safe: bool, residual: Expr | None = None) -> Join:
    mark = "m" if kind is JoinKind.MARK else None
    return Join(LEFT, RIGHT, kind, (KeyPair(column("a"), column("c"), null_safe),), residual, mark=mark)


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK, JoinKind.INNER])
def test_rows_are_those_that_a_loop_finds(kind: JoinKind, null_safe: bool) -> None:
    chance = random.Random(5)
    for _ in range(20):
        left = [(chance.choice([None, 1, 2, 3]), n) for n in range(chance.randrange(6))]
        right = [(chance.choice([None, 2, 3, 4]), n) for n in range(chance.randrange(6))]
        for residual in (None, Comparison("<", column("b"), column("d"))):
            found = join_rows(_join(kind, null_safe, residual), _table("ab", left), _table("cd", right))
            rows = Counter(zip(*(c.to_pylist() for c in found.itercolumns()), strict=True))
            assert rows == Counter(_looped(kind, null_safe, residual is not None, left, right))


def _table(names: str, rows: list[tuple[int | None, int]]) -> pa.Table:
    return pa.table({n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(names)})


def _looped(
    kind: JoinKind,
    null_safe: bool,
    less: bool,
    left: list[tuple[int | None, int]],
    right: list[tuple[int | None, int]],
) -> list[tuple[object, ...]]:
    def equal(one: tuple[int | None, int], other: tuple[int | None, int]) -> bool:
        same = one[0] == other[0] and (null_safe or one[0] is not None)
        return same and (not less or one[1] < other[1])

    if kind is JoinKind.INNER:
        return [(*one, *other) for one in left for other in right if equal(one, other)]
    hits = [(one, any(equal(one, other) for other in right)) for one in left]
    if kind is JoinKind.MARK:
        return [(*one, hit) for one, hit in hits]
    return [one for one, hit in hits if hit is (kind is JoinKind.SEMI)]


def test_a_value_that_most_rows_have_is_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rows on each side make ten thousand pairs; nobody needs those to know that there is one."""
    monkeypatch.setattr(joins, "_MOST_MATCHES", 9_999)
    same = pa.table({"a": pa.array([7] * 100, pa.int64()), "b": pa.array(range(100), pa.int64())})
    right = same.rename_columns(["c", "d"])
    with pytest.raises(ForSpark):
        join_rows(_join(JoinKind.INNER, False), same, right)
    assert join_rows(_join(JoinKind.SEMI, False), same, right).num_rows == 100
    assert join_rows(_join(JoinKind.ANTI, False), same, right).num_rows == 0
    assert find_matches([(same.column("a"), right.column("c"), False)], 100, 100).to_pylist() == [True] * 100
    different = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(range(100), pa.int64())})
    assert join_rows(_join(JoinKind.INNER, False), different, right).num_rows == 100
