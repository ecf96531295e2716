"""A small change of a large graph moves few rows, in as many jobs as one of a small graph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.refresh import execute, steps
from spark_trickle.session import Trickle
from spark_trickle.spark.collect import TooLarge

CLOSURE = """WITH RECURSIVE p(x, y) AS (SELECT x, y FROM {g} UNION SELECT p.x, {g}.y FROM p JOIN {g} ON p.y = {g}.x)
    SELECT x, y FROM p"""
PATHS = """WITH RECURSIVE p(x, y) AS (SELECT x, y FROM {g} UNION ALL SELECT p.x, {g}.y FROM p JOIN {g} ON p.y = {g}.x)
    SELECT x, y FROM p"""
SQUARED = """WITH RECURSIVE p(x, y) AS (SELECT x, y FROM small UNION SELECT a.x, b.y FROM p a JOIN p b ON a.y = b.x)
    SELECT x, y FROM p"""
SIZES = {"small": 5, "large": 600}  # chains of six nodes, fifteen pairs each


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("recursion") / "warehouse") as made:
        for graph, chains in SIZES.items():
            made.sql(f"CREATE TABLE {graph} (x INT, y INT)")
            made.sql(
                f"INSERT INTO {graph} SELECT CAST(id AS INT), CAST(id + 1 AS INT) FROM range({6 * chains}) WHERE id % 6 < 5"
            )
            for name, query in (("closure", CLOSURE), ("paths", PATHS)):
                made.sql(
                    f"CREATE STREAM TABLE {graph}_{name} REFRESH MODE DIFFERENTIAL AS {query.format(g=graph)}"
                )
        yield made


groups = count()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["closure", "paths"])
def test_a_small_change_of_a_large_graph_is_small(
    name: str, tr: Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    collect = execute.collect_within

    def counting(*arguments: Any) -> Any:
        found = collect(*arguments)
        collected.append(-1 if isinstance(found, TooLarge) else found.num_rows)
        return found

    for module in (steps, execute):
        monkeypatch.setattr(module, "collect_within", counting)

    def spent(graph: str) -> tuple[int, int, int, int]:
        """Rows that came and went, all rows that any step brought to the driver, and jobs."""
        context, group = tr.spark.sparkContext, f"recursion-costs-{next(groups)}"
        context.setJobGroup(group, name)
        collected.clear()
        report = tr.refresh(f"{graph}_{name}")
        assert report.action is Action.DIFFERENTIAL
        assert -1 not in collected
        jobs = len(context.statusTracker().getJobIdsForGroup(group))
        return report.rows_inserted, report.rows_deleted, sum(collected), jobs

    found = {}
    for graph in SIZES:
        tr.sql(f"INSERT INTO {graph} VALUES (11, 100000)")  # the end of the second chain
        grown = spent(graph)
        tr.sql(f"DELETE FROM {graph} WHERE x = 9")
        found[graph] = (grown, spent(graph))
        tr.sql(f"DELETE FROM {graph} WHERE y = 100000")
        tr.sql(f"INSERT INTO {graph} VALUES (9, 10)")
        tr.refresh(f"{graph}_{name}")
        assert tr.table(f"{graph}_{name}").count() == 15 * SIZES[graph]
    assert [f[:2] for f in found["large"]] == [(6, 0), (0, 12)]
    assert all(f[2] < 100 for f in found["large"])
    assert [f[:3] for f in found["large"]] == [f[:3] for f in found["small"]]
    assert [f[3] for f in found["large"]] <= [f[3] + 2 for f in found["small"]]


def test_explain_tells_the_rule_and_why(tr: Trickle) -> None:
    def told(query: str) -> str:
        return str(tr.sql(f"EXPLAIN CREATE STREAM TABLE x AS {query}").collect()[0]["plan"])

    assert "another path leads to them" in told(CLOSURE.format(g="small"))
    assert "followed step by step, with weights" in told(PATHS.format(g="small"))
    assert "computed again: the step joins the rows of the previous step with themselves" in told(SQUARED)
    text = str(tr.sql("EXPLAIN STREAM TABLE small_closure").collect()[0]["plan"])
    assert "in each round" in text
