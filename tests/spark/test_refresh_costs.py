"""What refreshes cost, counted in Spark jobs and stages: a small change is a small job, nothing new is none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from spark_trickle.spark.child_session import child_of
from spark_trickle.spark.view_cache import ViewCache

# Jobs and stages of a refresh after ten changed rows of the big table.
COSTS = {
    "scan": ("SELECT * FROM o", 0, 0),
    "picked": ("SELECT id, c AS kind FROM o WHERE c BETWEEN 2 AND 9 OR c IS NULL", 0, 0),
    "filtered": ("SELECT id, a * 2 AS b FROM o WHERE a > 10", 0, 0),
    "summed": ("SELECT c, sum(a) AS s, count(*) AS n FROM o GROUP BY c", 0, 0),
    "average": ("SELECT c, avg(a) AS m FROM o GROUP BY c", 0, 0),  # rounded as Spark does
    "total": ("SELECT sum(a) AS s FROM o", 0, 0),
    "having": ("SELECT c, sum(a) AS s FROM o GROUP BY c HAVING sum(a) > 100", 0, 0),
    "distinct_keys": ("SELECT DISTINCT c FROM o", 0, 0),
    "doubles": ("SELECT c, sum(d) AS s FROM o GROUP BY c", 2, 2),
    "joined": ("SELECT o.id, o.a, k.name FROM o JOIN k ON o.c = k.c", 0, 0),
    "joined_and_summed": ("SELECT k.name, sum(o.a) AS s FROM o JOIN k ON o.c = k.c GROUP BY k.name", 0, 0),
    "left": ("SELECT o.id, o.a, k.name FROM o LEFT JOIN k ON o.c = k.c", 0, 0),
    "unseen": ("SELECT o.id, upper(k.name) AS n FROM o JOIN k ON abs(o.c) = k.c", 0, 0),
    "matching": ("SELECT id, a FROM o WHERE EXISTS (SELECT 1 FROM k WHERE k.c = o.c)", 0, 0),
    "both": ("SELECT id FROM o WHERE c = 1 UNION ALL SELECT id FROM o WHERE c = 2", 0, 0),
    # What only Spark can tell:
    "filtered_by_spark": ("SELECT id, abs(a) AS b FROM o WHERE a > 10", 1, 1),
    "summed_by_spark": ("SELECT c, sum(abs(a)) AS s, count(*) AS n FROM o GROUP BY c", 1, 1),
    "total_by_spark": ("SELECT sum(abs(a)) AS s FROM o", 1, 1),
    "joined_by_spark": ("SELECT o.id, o.a, k.name FROM o JOIN k ON abs(o.c) = k.c", 2, 2),
    "joined_and_summed_by_spark": (
        "SELECT k.name, sum(o.a) AS s FROM o JOIN k ON abs(o.c) = k.c GROUP BY k.name",
        2,
        2,
    ),
    "left_by_spark": ("SELECT o.id, o.a, k.name FROM o LEFT JOIN k ON abs(o.c) = k.c", 2, 2),
    # Joined here; what is left is for Spark:
    "joined_here": ("SELECT o.id, o.a, upper(k.name) AS n FROM o JOIN k ON o.c = k.c", 1, 1),
    "joined_here_and_summed": (
        "SELECT k.name, sum(abs(o.a)) AS s FROM o JOIN k ON o.c = k.c GROUP BY k.name",
        1,
        1,
    ),
}


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("costs") / "warehouse") as made:
        made.sql("CREATE TABLE o (id BIGINT, c INT, a DECIMAL(10, 2), d DOUBLE, PRIMARY KEY (id))")
        made.sql("CREATE TABLE k (c INT, name STRING, PRIMARY KEY (c))")
        made.sql("INSERT INTO o SELECT id, id % 20, id, id / 4 FROM range(5000)")
        made.sql("INSERT INTO k SELECT id, concat('n', id) FROM range(20)")
        for name, (query, _, _) in COSTS.items():
            made.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        yield made


groups = count()


def spent(tr: Trickle, name: str) -> tuple[Action, int, int]:
    """What a refresh did, and the Spark jobs and stages that it took."""
    context, group = tr.spark.sparkContext, f"refresh-costs-{next(groups)}"
    context.setJobGroup(group, name)
    report = tr.refresh(name)
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    infos = [tracker.getJobInfo(j) for j in jobs]
    return report.action, len(jobs), sum(len(i.stageIds) for i in infos if i is not None)


def test_jobs_and_stages_of_a_small_refresh(tr: Trickle) -> None:
    for step in range(2):
        tr.sql(f"UPDATE o SET a = a + 1, d = d + 0.5 WHERE id BETWEEN {step * 100} AND {step * 100 + 9}")
        found = {name: spent(tr, name) for name in COSTS}
    assert found == {name: (Action.DIFFERENTIAL, jobs, stages) for name, (_, jobs, stages) in COSTS.items()}


def test_nothing_new_costs_no_job(tr: Trickle) -> None:
    for name in COSTS:
        tr.refresh(name)
        assert spent(tr, name) == (Action.NO_DATA, 0, 0)


def test_what_changed_is_scanned_once_for_all_who_read_it(tr: Trickle) -> None:
    tr.refresh_all()
    tr.sql("UPDATE o SET a = a + 1 WHERE id < 5")
    held = tr._connection.place.views
    before = (held.made["change"], held.shared["change"])
    tr.refresh_all()
    # Once for those that take the rows as they are, once for those that leave them to Spark.
    assert held.made["change"] - before[0] == 2
    assert held.shared["change"] - before[1] >= len(COSTS) - 2


def test_old_versions_of_a_table_are_not_held(tr: Trickle) -> None:
    child = child_of(tr.spark)
    assert child is not None
    spark, held = child.spark, ViewCache()

    def views() -> set[str]:
        shown = spark.sql("SHOW TABLES").collect()
        return {t.tableName for t in shown if t.tableName.startswith("trickle_held_")}

    def view(cache: ViewCache, *key: object) -> str:
        name = cache.view(spark, key, lambda: spark.range(1))
        assert isinstance(name, str)
        return name

    before = views()
    other = view(held, "rows", 2, "f")
    names = [view(held, "rows", 1, n) for n in range(40)]
    assert views() - before == {other, *names[8:]}
    assert view(held, "rows", 1, 39) == names[-1]
    few = ViewCache(most=2)
    kept = [view(few, "rows", n, "f") for n in range(3)]
    assert views() - before == {other, *names[8:], *kept[1:]}
    few.clear()
    held.clear()
    assert views() == before
