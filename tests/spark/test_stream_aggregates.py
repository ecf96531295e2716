"""Every aggregate function of Spark that is deterministic, kept incrementally and compared with Spark itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

CALLS = """
count(*); count(x); count(x, y); count(DISTINCT x); count(DISTINCT x, s); count_if(x > 1); sum(x); sum(d); sum(y)
sum(DISTINCT x); sum(x) FILTER (WHERE b); avg(x); avg(d); avg(y); mean(x); avg(DISTINCT x); try_sum(x); try_avg(x)
min(x); max(x); min(s); max(d); min_by(s, x * 100 + id); max_by(s, x * 100 + id)
bool_and(b); bool_or(b); every(b); some(b); any(b); bit_and(x); bit_or(x); bit_xor(x)
stddev(x); std(x); stddev_pop(x); stddev_samp(y); variance(x); var_pop(x); var_samp(y); skewness(x); kurtosis(x)
covar_pop(x, y); covar_samp(x, y); corr(x, y); regr_count(x, y); regr_avgx(x, y); regr_avgy(x, y); regr_r2(x, y)
regr_slope(x, y); regr_intercept(x, y); regr_sxx(x, y); regr_sxy(x, y); regr_syy(x, y)
sort_array(collect_list(x)); sort_array(collect_set(x)); sort_array(array_agg(s)); size(collect_list(y))
listagg(s, ',') WITHIN GROUP (ORDER BY s); string_agg(s, '-') WITHIN GROUP (ORDER BY s DESC)
percentile(x, 0.5); percentile_cont(0.25) WITHIN GROUP (ORDER BY x); percentile_disc(0.5) WITHIN GROUP (ORDER BY x)
median(x); mode(x, true); approx_percentile(x, 0.5); percentile_approx(x, array(0.25, 0.75))
approx_count_distinct(x); any_value(k); first(k); last(k); first_value(k); last_value(k)
histogram_numeric(x, 3); count_min_sketch(x, 0.5d, 0.5d, 1); hll_sketch_estimate(hll_sketch_agg(x))
max(x) - min(x); 100 * sum(x) / count(*); sum(x * id) + max(id); coalesce(sum(x), 0); CASE WHEN count(*) > 2 THEN 1 END
""".replace("\n", "; ")
NAMES = [c.strip() for c in CALLS.split("; ") if c.strip()]


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with connect(tmp_path / "warehouse") as made:
        made.sql("CREATE TABLE a (id INT, k INT, x INT, y DOUBLE, d DECIMAL(10, 2), s STRING, b BOOLEAN)")
        made.sql(
            "INSERT INTO a SELECT id, IF(id % 7 = 0, NULL, id % 4), IF(id % 5 = 0, NULL, id % 3), id / 2.0D, "
            "id * 1.25, IF(id % 6 = 0, NULL, concat('s', id % 5)), IF(id % 8 = 0, NULL, id % 2 = 0) FROM range(40)"
        )
        yield made


STEPS = (
    ["INSERT INTO a VALUES (100, 9, 5, 1.5, 2.5, 'new', true), (101, NULL, NULL, NULL, NULL, NULL, NULL)"],
    ["UPDATE a SET x = x + 3, y = y * 2, d = d + 1, s = 'u' WHERE id % 3 = 0", "DELETE FROM a WHERE k = 2"],
    ["DELETE FROM a WHERE id IN (4, 8, 100)", "UPDATE a SET k = 3 WHERE k = 1", "INSERT INTO a SELECT * FROM a WHERE id < 3"],
    ["TRUNCATE TABLE a"],
    ["INSERT INTO a VALUES (1, 1, 1, 1, 1, 'z', false)"],
)  # fmt: skip


def plain(value: Any) -> Any:
    """Numbers to nine digits: sums of doubles depend on the order of their rows."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{round(value, 12):.9g}")
    return repr(value) if isinstance(value, list | bytearray) else value


def bag(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plain(v) for v in row) for row in rows)


# Spark itself cannot compute DISTINCT beside WITHIN GROUP.
LISTED, DISTINCT = (
    [f"{call} AS c{n}" for n, call in enumerate(NAMES) if ("DISTINCT" in call) is wanted]
    for wanted in (False, True)
)
QUERIES = {
    "some": f"SELECT k, {', '.join(LISTED[::7])} FROM a GROUP BY k",
    "grouped": f"SELECT k, {', '.join(LISTED)} FROM a GROUP BY k",
    "total": f"SELECT {', '.join(LISTED)} FROM a",
    "different": f"SELECT k, {', '.join(DISTINCT)}, count(*) AS n FROM a GROUP BY k",
    "sums": "SELECT k, count(*) AS c, sum(x) AS s, avg(d) AS a, bool_or(b) AS o, count_if(x > 1) AS i FROM a GROUP BY k",
}


@pytest.mark.one_in(len(QUERIES))
@pytest.mark.parametrize("name", QUERIES)
def test_every_function(tr: Trickle, name: str) -> None:
    assert len(NAMES) >= 80
    tr.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")
    for step in STEPS:
        for statement in step:
            tr.sql(statement)
        report = tr.refresh(name)
        assert report.action is Action.DIFFERENTIAL
        found, wanted = tr.table(name).collect(), tr.sql(QUERIES[name]).collect()
        assert bag(found) == bag(wanted), _differences(found, wanted)


def _differences(found: list[Any], wanted: list[Any]) -> str:
    """The columns whose values differ."""
    lines = []
    for one, two in zip(sorted(found, key=repr), sorted(wanted, key=repr), strict=False):
        for name, a, b in zip(one.__fields__, one, two, strict=True):
            if plain(a) != plain(b):
                call = NAMES[int(name[1:])] if name[1:].isdigit() else name
                lines.append(f"{call}: {a} instead of {b}")
    return "\n".join(lines)
