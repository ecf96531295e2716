"""Spark's SQL in all its forms: names, literals, functions and clauses mean in a plan what they mean to Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from spark_trickle import connect
from spark_trickle.session import Trickle

SETUP = (
    "CREATE TABLE Ev (id INT, `user name` STRING, ts TIMESTAMP, d DATE, amt DECIMAL(12, 2), tags ARRAY<STRING>, "
    "addr STRUCT<city: STRING, zip: INT>, f DOUBLE, ok BOOLEAN, PRIMARY KEY (id))",
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.`Größe` (id INT, `select` INT, n BIGINT)",
    "INSERT INTO ev SELECT id, concat('u', id % 4), timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id), "
    "date_add(date'2026-01-01', id % 5), id * 1.25, array('a', concat('b', id % 3)), "
    "named_struct('city', concat('c', id % 2), 'zip', id), id / 3.0D, id % 3 = 0 "
    "FROM (SELECT int(id) AS id FROM range(30))",
    "INSERT INTO sales.`Größe` SELECT id, id % 5, id * 10 FROM (SELECT int(id) AS id FROM range(20))",
    "CREATE VIEW v AS SELECT id, upper(`user name`) AS u FROM ev WHERE ok",
    "CREATE VIEW sales.w (x, y) AS SELECT id, `select` FROM sales.`Größe`",
)
CHANGES = (
    "INSERT INTO ev SELECT id + 100, `user name`, ts, d, amt * 2, tags, addr, f + 1, NOT ok FROM ev WHERE id % 7 = 0",
    "UPDATE ev SET amt = amt + 3, `user name` = 'u9', ok = NULL WHERE id % 6 = 1",
    "DELETE FROM ev WHERE id % 5 = 2",
    "INSERT INTO sales.`Größe` VALUES (3, 3, 3), (NULL, NULL, NULL)",
    "DELETE FROM sales.`Größe` WHERE `select` = 4",
)
QUERIES = r'''
SELECT `user name`, count(*) AS `how many` FROM ev GROUP BY `user name`
SELECT e.*, g.n FROM ev e JOIN sales.`Größe` g ON e.id = g.id
SELECT EV.ID AS i, Addr.City AS c, addr.zip + 1 AS z FROM EV WHERE addr.city = 'c1'
SELECT e.addr.city AS c, count(*) AS n FROM ev AS e GROUP BY e.addr.city
SELECT d, sum(amt) AS s FROM ev GROUP BY ALL
SELECT id + 1 AS a, a * 2 AS b FROM ev
SELECT `user name` AS u, sum(amt) AS s FROM ev GROUP BY u HAVING s > 10
SELECT year(ts) AS y, month(d) AS m, date_trunc('HOUR', ts) AS h, count(*) AS n FROM ev GROUP BY 1, 2, 3
SELECT date_format(ts, 'yyyy-MM-dd') AS x, d + INTERVAL 3 DAYS AS e, datediff(d, date'2025-12-31') AS k, dateadd(DAY, 2, d) AS l FROM ev
SELECT id, CASE WHEN amt BETWEEN 5 AND 20 THEN 'mid' WHEN amt > 20 THEN 'high' ELSE 'low' END AS c FROM ev WHERE `user name` LIKE 'u%' AND `user name` NOT IN ('u1', 'u2')
SELECT id, amt::DOUBLE AS a, CAST(amt AS INT) AS b, try_cast(`user name` AS INT) AS c, id % 2 = 0 AS e FROM ev
SELECT id, transform(tags, t -> concat(t, '!')) AS t2, filter(tags, x -> x <> 'a') AS f2, size(tags) AS n, tags[0] AS z, array_contains(tags, 'b1') AS h FROM ev
SELECT id, t FROM ev LATERAL VIEW explode(tags) x AS t
SELECT t, count(*) AS n FROM (SELECT id, explode(tags) AS t FROM ev) GROUP BY t
SELECT u, count(*) AS n FROM v GROUP BY u
SELECT w.x, w.y, v.u FROM sales.w JOIN v ON w.x = v.id
WITH ev AS (SELECT id, amt FROM ev WHERE ok), b AS (SELECT max(amt) AS m FROM ev) SELECT ev.id FROM ev, b WHERE ev.amt = b.m
SELECT * FROM (SELECT id, amt FROM ev) AS x(a, b) WHERE b > 3
SELECT x.* FROM (SELECT id AS `weird col`, 1 AS `sel` FROM ev) x
SELECT id, row_number() OVER (PARTITION BY `user name` ORDER BY amt DESC, id) AS rn, sum(amt) OVER (PARTITION BY d ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS run, avg(f) OVER (PARTITION BY ok) AS a FROM ev
SELECT id, lag(amt, 1, 0) OVER w AS p, ntile(3) OVER w AS t, first_value(id) OVER w AS fv FROM ev WINDOW w AS (PARTITION BY `user name` ORDER BY id)
SELECT `user name` AS u, amt FROM ev QUALIFY rank() OVER (PARTITION BY `user name` ORDER BY amt DESC) <= 2
SELECT DISTINCT d, ok FROM ev
SELECT count(DISTINCT `user name`, d) AS n, count(DISTINCT d) AS m FROM ev
SELECT ok, count(*) FILTER (WHERE amt > 10) AS a, sum(amt) FILTER (WHERE d = date'2026-01-02') AS b, max(amt) FILTER (WHERE f < 3) AS c FROM ev GROUP BY ok
SELECT d, `user name` AS u, sum(amt) AS s, grouping(d) AS gd FROM ev GROUP BY CUBE (d, `user name`)
SELECT id, (SELECT max(n) FROM sales.`Größe` g WHERE g.id <= ev.id) AS m FROM ev
SELECT id FROM ev WHERE amt > (SELECT avg(amt) FROM ev e2 WHERE e2.`user name` = ev.`user name`)
SELECT id FROM ev WHERE (id, id % 5) IN (SELECT id, `select` FROM sales.`Größe`)
SELECT id FROM ev WHERE id NOT IN (SELECT id FROM sales.`Größe` WHERE `select` = 2) AND EXISTS (SELECT 1 FROM v WHERE v.id = ev.id)
SELECT id, amt FROM ev WHERE ok OR id IN (SELECT x FROM sales.w WHERE y = 1)
FROM ev SELECT id, f WHERE f > 2
SELECT id, 'it''s' AS q, "dq" AS w, r'\d' AS r, 1.5BD AS b, 2L AS l, 1e2 AS e, X'1F' AS x, -id AS neg, ~id AS inv, id & 3 AS an FROM ev
SELECT id FROM ev WHERE f IS NOT NULL AND NOT ok AND id <> 3 AND id != 4 AND (id = 5 OR id > 7)
SELECT a.id, b.id AS bid FROM ev a LEFT JOIN ev b ON a.id = b.id + 1 AND b.ok
SELECT a.id, b.n FROM ev a LEFT OUTER JOIN sales.`Größe` b USING (id)
SELECT id, n FROM ev NATURAL JOIN sales.`Größe`
SELECT id FROM ev UNION ALL SELECT n FROM sales.`Größe` UNION SELECT 5
(SELECT id FROM ev EXCEPT SELECT id FROM sales.`Größe`) INTERSECT SELECT id FROM ev
SELECT id, amt FROM ev ORDER BY amt DESC NULLS LAST, id LIMIT 5 OFFSET 2
SELECT * FROM (SELECT id, amt FROM ev ORDER BY amt, id LIMIT 3) UNION ALL SELECT id, 0 FROM sales.`Größe` WHERE id < 3
SELECT u.k, sum(u.v) AS s FROM (SELECT id % 3 AS k, amt AS v FROM ev UNION ALL SELECT `select`, n FROM sales.`Größe`) u GROUP BY u.k
SELECT max(s) AS m, min(c) AS c FROM (SELECT d, sum(amt) AS s, count(*) AS c FROM ev GROUP BY d)
SELECT id, coalesce(nullif(`user name`, 'u1'), 'none') AS c, if(ok, 1, 0) AS i, nvl(f, 0) AS n, greatest(id, 5) AS g, round(f, 2) AS r, concat_ws('-', `user name`, d) AS cw FROM ev
SELECT regexp_extract(`user name`, 'u(.)', 1) AS r, substring(`user name` FROM 2 FOR 1) AS s, trim(BOTH 'u' FROM `user name`) AS t, position('u' IN `user name`) AS p, length(`user name`) AS l, count(*) AS n FROM ev GROUP BY `user name`
SELECT extract(DAY FROM d) AS dd, dayofweek(d) AS dw, last_day(d) AS ld, unix_timestamp(ts) AS ut, to_date('2026-01-01') AS td, months_between(d, date'2025-01-01') AS mb FROM ev
SELECT named_struct('a', id, 'b', ok) AS s, map_keys(map('x', id)) AS mk, array(id, 1) AS arr FROM ev
SELECT hash(id) AS h, md5(`user name`) AS m, sha2(`user name`, 256) AS s, to_json(addr) AS j, from_json('{"a":1}', 'a INT').a AS fj FROM ev
SELECT stddev(f) AS s, corr(f, id) AS c, percentile(id, 0.5) AS p, max_by(id, f) AS mb, sort_array(collect_set(d)) AS cs, approx_count_distinct(id) AS ac FROM ev
SELECT v1.id FROM ev v1 WHERE 2 > (SELECT count(*) FROM ev v2 WHERE v2.`user name` = v1.`user name` AND v2.amt > v1.amt)
SELECT t.id, x.c FROM ev t, LATERAL (SELECT count(*) AS c FROM sales.`Größe` g WHERE g.n < t.amt) x
SELECT e.id, s.tag FROM ev e JOIN LATERAL explode(e.tags) AS s(tag)
SELECT id, tag FROM ev, LATERAL explode(tags) AS t(tag)
SELECT a.n, b.n AS m FROM (VALUES (1), (2)) AS a(n) LEFT JOIN (SELECT id AS n FROM ev) b ON a.n = b.n
SELECT ROW_NUMBER() OVER (ORDER BY id) AS rn, id FROM ev
SELECT d, count(*) AS n FROM ev WHERE d >= DATE '2026-01-02' GROUP BY d HAVING count(*) >= 2 AND d IN (SELECT max(d) FROM ev UNION SELECT min(d) FROM ev)
SELECT window(ts, '10 seconds').start AS ws, count(*) AS n FROM ev GROUP BY window(ts, '10 seconds')
SELECT e.id FROM ev e LEFT ANTI JOIN sales.`Größe` g ON e.id = g.id AND g.n > 50
SELECT try_divide(amt, id - 3) AS q, id FROM ev
SELECT id, `user name` || '-' || id AS c, id <=> NULL AS n, id IS DISTINCT FROM 3 AS dd FROM ev
SELECT * EXCEPT (tags, addr) FROM ev
SELECT count(*) AS n FROM ev a CROSS JOIN sales.`Größe` b WHERE a.id < b.id
SELECT w.start AS s, count(*) AS n FROM (SELECT window(ts, '10 seconds', '5 seconds') AS w, amt FROM ev) GROUP BY w
SELECT "say ""x""" AS w, 'it''s' AS q, 'a""b' AS z, "it''s" AS y, id FROM ev
SELECT id % 3 + 1 AS k, max(amt) AS m, count(*) AS n FROM ev GROUP BY id % 3 + 1
SELECT id, named_struct('a', -id) AS s FROM ev ORDER BY s.a LIMIT 5
SELECT id AS n, named_struct('zip', -addr.zip) AS addr FROM ev ORDER BY addr.zip LIMIT 5
SELECT id, named_struct('n', -addr.zip) AS addr FROM ev ORDER BY addr.zip, 1 LIMIT 5
SELECT addr.city AS c, named_struct('zip', sum(id)) AS addr FROM ev GROUP BY addr.city HAVING addr.zip > 10
SELECT id, amt FROM ev UNION ALL SELECT id, n FROM sales.`Größe` ORDER BY ALL DESC LIMIT 4
SELECT d, `user name` AS u, sum(amt) AS amt, grouping_id() AS g FROM ev GROUP BY d, `user name` GROUPING SETS ((d), ()) HAVING amt > 1
SELECT named_struct('a', struct(id AS b)) AS s, s.a.b + 1 AS c, s.A AS e FROM ev
'''.strip().split("\n")


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


def check(tr: Trickle, queries: list[str]) -> None:
    for statement in SETUP:
        tr.sql(statement)
    for n, query in enumerate(queries):
        tr.sql(f"CREATE STREAM TABLE x{n} AS {query}")
    for statement in CHANGES:
        tr.sql(statement)
    for n, query in enumerate(queries):
        tr.refresh(f"x{n}")
        assert bag(tr.table(f"x{n}")) == bag(tr.sql(query)), query


def test_some_forms(tmp_path: Path) -> None:
    with connect(tmp_path / "w") as tr:
        check(tr, QUERIES[2::36])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_forms(tmp_path: Path) -> None:
    assert len(QUERIES) > 60
    with connect(tmp_path / "w") as tr:
        check(tr, QUERIES)
