"""LIMIT through a small buffer: rows beyond it, ties, NULLs, equal rows, and a buffer that runs dry."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from spark_trickle.algebra.stateful_operators import Buffer
from spark_trickle.sql.bind import limit
from tests.laws.duck import Row, Table, World

QUERIES = (
    "SELECT a, b FROM t ORDER BY a, b LIMIT 3",
    "SELECT a FROM t ORDER BY a DESC NULLS LAST LIMIT 2",
    "SELECT b FROM t ORDER BY a NULLS LAST, b DESC LIMIT 3 OFFSET 2",
    "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC, a LIMIT 2",
    "SELECT a, b FROM t WHERE b > 0 ORDER BY a + b, a, b LIMIT 1",
    "SELECT a FROM t ORDER BY a LIMIT 0",
)


def rows(chance: random.Random, count: int) -> Counter[Row]:
    return Counter((chance.choice((None, *range(6))), chance.choice((None, *range(4)))) for _ in range(count))


def changed(chance: random.Random, now: Counter[Row]) -> Counter[Row]:
    """Mostly rows at the front go, so that the buffer runs dry; some come anywhere."""
    front = sorted(now.elements(), key=lambda r: tuple(-1 if v is None else v for v in r))
    gone = Counter(chance.sample(front[:8], min(len(front[:8]), chance.randrange(6))))
    change = rows(chance, chance.randrange(4))
    change.subtract(gone)
    return Counter({row: n for row, n in change.items() if n})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("query", QUERIES)
def test_a_small_buffer_is_exact(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "_SPARE_ROWS", 1)
    for seed in range(6):
        chance = random.Random(f"{query} {seed}")
        table = Table((("a", "int"), ("b", "int")), rows(chance, 25))
        world = World({"t": table}, query)
        assert any(isinstance(n.plan, Buffer) for n in world.nodes)
        assert world.result == world.oracle()
        for _ in range(8):
            world.refresh({"t": changed(chance, world.tables["t"].rows)})
            assert world.result == world.oracle(), (query, seed)
