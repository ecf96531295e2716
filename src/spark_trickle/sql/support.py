"""What SQL the query of a stream table may use: one table, which the reference page and a test are made from.

Examples read `t(k INT, v INT)` and `u(k INT, w INT)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Support(StrEnum):
    INCREMENTAL = "incremental"
    IN_FULL = "in full"
    UNSUPPORTED = "not supported"
    NEVER = "never"


@dataclass(frozen=True)
class Feature:
    name: str
    state: Support
    example: str
    note: str = ""


YES, FULL, NO, NEVER = Support.INCREMENTAL, Support.IN_FULL, Support.UNSUPPORTED, Support.NEVER

FEATURES = (
    Feature("filter, projection, expressions", YES, "SELECT k + 1 AS a FROM t WHERE v > 1"),
    Feature("VALUES, SELECT without FROM", YES, "SELECT k FROM t UNION ALL VALUES (1)"),
    Feature("TABLE t, brackets around joins", YES, "SELECT x.v, x.w FROM (t JOIN u USING (k)) x"),
    Feature("structs and their fields", YES, "SELECT x.z.* FROM (SELECT struct(k, v) AS z FROM t) x"),
    Feature("inner join", YES, "SELECT t.k, w FROM t JOIN u ON t.k = u.k AND v < w"),
    Feature("left, right, full join", YES, "SELECT t.k, w FROM t FULL JOIN u ON t.k = u.k"),
    Feature("cross and comma join", YES, "SELECT t.k, w FROM t, u"),
    Feature("NATURAL, USING", YES, "SELECT k, w FROM t JOIN u USING (k)"),
    Feature("semi and anti join", YES, "SELECT k FROM t LEFT ANTI JOIN u ON t.k = u.k"),
    Feature("EXISTS, IN, NOT IN", YES, "SELECT k FROM t WHERE k NOT IN (SELECT w FROM u)"),
    Feature("ANY, ALL", YES, "SELECT k FROM t WHERE v > ALL (SELECT w FROM u WHERE u.k = t.k)"),
    Feature(
        "subqueries under OR", YES, "SELECT k FROM t WHERE v = 1 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)"
    ),
    Feature("scalar subqueries", YES, "SELECT k, (SELECT max(w) FROM u WHERE u.k = t.k) AS m FROM t"),
    Feature(
        "outer columns in a query in FROM",
        YES,
        "SELECT k, (SELECT max(x) FROM (SELECT w AS x FROM u WHERE u.k = t.k) d) AS m FROM t",
    ),
    Feature("subqueries in ON", YES, "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k AND v IN (SELECT w FROM u)"),
    Feature("GROUP BY, HAVING", YES, "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING count(*) > 1"),
    Feature(
        "FILTER, DISTINCT aggregates",
        YES,
        "SELECT k, count(DISTINCT v) FILTER (WHERE v > 1) AS n FROM t GROUP BY k",
    ),
    Feature("GROUPING SETS, CUBE, ROLLUP", YES, "SELECT k, v, count(*) AS n FROM t GROUP BY ROLLUP (k, v)"),
    Feature("DISTINCT", YES, "SELECT DISTINCT k FROM t"),
    Feature("UNION, INTERSECT, EXCEPT [ALL]", YES, "SELECT k FROM t EXCEPT ALL SELECT k FROM u"),
    Feature(
        "UNION BY NAME",
        YES,
        "SELECT k, v FROM t UNION ALL BY NAME SELECT w, k FROM u",
        "columns that one side lacks are NULL",
    ),
    Feature("PIVOT", YES, "SELECT * FROM t PIVOT (sum(v) FOR k IN (1 AS one, 2 AS two))"),
    Feature("UNPIVOT", YES, "SELECT * FROM t UNPIVOT (value FOR name IN (k, v))"),
    Feature(
        "windows",
        YES,
        "SELECT k, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM t",
        "without PARTITION BY, everything is computed again",
    ),
    Feature("QUALIFY", YES, "SELECT k, v FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1"),
    Feature(
        "ORDER BY … LIMIT, OFFSET",
        YES,
        "SELECT k, v FROM t ORDER BY v, k LIMIT 3 OFFSET 1",
        "computed from a buffer; the input is read again when the buffer runs out",
    ),
    Feature("CTE", YES, "WITH a AS (SELECT k FROM t) SELECT x.k FROM a x JOIN a y ON x.k = y.k"),
    Feature(
        "WITH RECURSIVE",
        YES,
        "WITH RECURSIVE r AS (SELECT k FROM t UNION SELECT v FROM r JOIN t USING (k)) SELECT k FROM r",
        "inserted rows are followed; after deletions, rows with another derivation are kept",
    ),
    Feature("LATERAL subqueries", YES, "SELECT t.k, l.w FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k) l"),
    Feature(
        "explode and other generators", YES, "SELECT k, e FROM t LATERAL VIEW explode(array(v, k)) x AS e"
    ),
    Feature("table functions: range, explode, …", YES, "SELECT t.k, r.id FROM t JOIN range(5) r ON r.id < v"),
    Feature(
        "functions of the clock",
        FULL,
        "SELECT k, current_date() AS d FROM t",
        "their value is different at every refresh, so AUTO computes everything, and says why",
    ),
    Feature(
        "subqueries in ON, also over both sides",
        YES,
        "SELECT t.k FROM t FULL JOIN u ON EXISTS (SELECT 1 FROM u x WHERE x.k = t.k AND x.w = u.w)",
    ),
    Feature("random functions", NEVER, "SELECT k, rand() AS r FROM t", "a different value at every refresh"),
    Feature(
        "session_window",
        NO,
        "SELECT session_window(v, '5 minutes') AS s, count(*) AS n FROM t GROUP BY 1",
        "a row between two sessions merges them into one, so no key says which rows it touches; "
        "use windows with lag() and a running sum instead",
    ),
    Feature("steps with |>", NO, "FROM t |> WHERE v > 1", "write nested queries instead"),
    Feature(
        "TABLESAMPLE",
        NEVER,
        "SELECT k FROM t TABLESAMPLE (10 PERCENT)",
        "a different sample at every refresh",
    ),
    Feature("SORT BY, DISTRIBUTE BY", NEVER, "SELECT k FROM t SORT BY k", "a table has no order"),
)
