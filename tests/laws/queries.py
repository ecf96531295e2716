"""Queries over t(id, k, v, s) and u(id, k, w): every operator, and their pairs."""

from __future__ import annotations

QUERIES = """
SELECT id, k, v FROM t WHERE v > 1;
SELECT * FROM t;
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k;
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND t.v < u.w;
SELECT t.id, u.w FROM t, u WHERE t.k = u.k;
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.w > 1;
SELECT t.id, u.w FROM t RIGHT JOIN u ON t.k = u.k;
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k;
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k AND t.v > u.w;
SELECT k, t.id a, u.id b FROM t JOIN u USING (k);
SELECT k, t.id a, u.id b FROM t FULL JOIN u USING (k);
SELECT * FROM t NATURAL JOIN u;
SELECT t.id FROM t LEFT SEMI JOIN u ON t.k = u.k;
SELECT t.id FROM t LEFT ANTI JOIN u ON t.k = u.k;
SELECT t.id, u.id x FROM t CROSS JOIN u;
SELECT t.id, u.id x FROM t LEFT JOIN u ON t.v < u.w;
SELECT k, count(*) c, sum(v) s, count(v) n FROM t GROUP BY k;
SELECT count(*) c, sum(v) s FROM t;
SELECT k, min(v) a, max(v) b FROM t GROUP BY k;
SELECT k, avg(v) a FROM t GROUP BY k HAVING count(*) > 1;
SELECT DISTINCT k, s FROM t;
SELECT k FROM t UNION ALL SELECT k FROM u;
SELECT k FROM t UNION SELECT w FROM u;
SELECT k FROM t INTERSECT SELECT k FROM u;
SELECT k FROM t INTERSECT ALL SELECT k FROM u;
SELECT k FROM t EXCEPT SELECT k FROM u;
SELECT k FROM t EXCEPT ALL SELECT k FROM u;
SELECT k, sum(v) * 2 + count(*) x FROM t WHERE v IS NOT NULL GROUP BY k;
SELECT a.k, b.c FROM t a JOIN (SELECT k, count(*) c FROM u GROUP BY k) b ON a.k = b.k;
SELECT c, count(*) n FROM (SELECT k, count(*) c FROM t GROUP BY k) GROUP BY c;
WITH x AS (SELECT k, sum(v) s FROM t GROUP BY k) SELECT a.k, b.s FROM x a JOIN x b ON a.k = b.k;
SELECT id, k, rank() OVER (PARTITION BY k ORDER BY v) r FROM t;
SELECT id, sum(v) OVER (PARTITION BY k) a, count(*) OVER (PARTITION BY s) b, count(*) OVER () c FROM t;
SELECT k, sum(v) s, rank() OVER (ORDER BY sum(v)) r FROM t GROUP BY k;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k);
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.v);
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.w > 5);
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.w > 5);
SELECT id FROM t WHERE k IN (SELECT k FROM u);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL);
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.w = t.v);
SELECT id FROM t WHERE (k, v) IN (SELECT k, w FROM u);
SELECT id FROM t WHERE k IN (SELECT k FROM u) OR v = 1;
SELECT id, k IN (SELECT k FROM u) b FROM t;
SELECT id, k NOT IN (SELECT k FROM u WHERE u.id = t.id) b FROM t;
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) b FROM t;
SELECT id FROM t WHERE v > ANY (SELECT w FROM u);
SELECT id FROM t WHERE v > ALL (SELECT w FROM u WHERE u.k = t.k);
SELECT id, (SELECT max(w) FROM u) m FROM t;
SELECT id, (SELECT count(*) FROM u WHERE u.k = t.k) m FROM t;
SELECT id, (SELECT sum(w) FROM u WHERE u.k = t.k) m FROM t;
SELECT id FROM t WHERE v = (SELECT max(v) FROM t);
SELECT id FROM t WHERE v > (SELECT avg(w) FROM u WHERE u.k = t.k);
SELECT id FROM t WHERE v > (SELECT count(*) FROM u WHERE u.w < t.v);
SELECT id, (SELECT count(*) FROM u WHERE u.w < t.v AND EXISTS (SELECT 1 FROM t t2 WHERE t2.id = u.id AND t2.k = t.k)) m FROM t;
SELECT k, (SELECT max(w) FROM u WHERE u.k = t.k) m, count(*) c FROM t GROUP BY k;
SELECT k, count(*) c FROM t GROUP BY k HAVING count(*) > (SELECT count(*) FROM u WHERE u.k = t.k);
SELECT k, count(DISTINCT v) c, sum(DISTINCT v) d FROM t GROUP BY k;
SELECT k, count(*) FILTER (WHERE v > 1) c, sum(v) FILTER (WHERE s = 'a') d FROM t GROUP BY k;
SELECT id, v FROM t ORDER BY v DESC NULLS LAST, id, k, s LIMIT 3;
SELECT id, v FROM t ORDER BY v, id, k, s LIMIT 2 OFFSET 1;
SELECT k % 2 p, count(*) c FROM t GROUP BY 1;
SELECT k + 1 AS kk, sum(v) s FROM t GROUP BY kk ORDER BY kk;
SELECT a.id, b.id c, d.id e FROM t a JOIN t b ON a.k = b.k JOIN t d ON b.v = d.v;
SELECT u.k, sum(t.v) s FROM t JOIN u ON t.k = u.k GROUP BY u.k;
SELECT coalesce(t.k, u.k) k, sum(w) s FROM t FULL JOIN u ON t.k = u.k GROUP BY coalesce(t.k, u.k);
SELECT id, k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v, id, s) = 1;
SELECT id, CASE WHEN row_number() OVER (PARTITION BY k ORDER BY v, id, s) = 1 THEN 'first' ELSE s END z FROM t;
SELECT t.id, x.m FROM t, LATERAL (SELECT max(w) m FROM u WHERE u.k = t.k) x;
SELECT t.id, x.w FROM t LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = t.k ORDER BY w DESC NULLS LAST LIMIT 1) x ON true;
SELECT count(*) c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k);
SELECT v FROM (VALUES (1), (2)) AS x(v) UNION ALL SELECT v FROM t;
SELECT t.id, a FROM t JOIN VALUES (1, 10), (2, 20) AS x(k, a) ON t.k = x.k;
SELECT 1 AS one, (SELECT count(*) FROM t) c;
SELECT k, count(*) c FROM t GROUP BY k HAVING max(v) > 1 AND k IN (SELECT k FROM u);
SELECT id FROM t WHERE NOT (k IN (SELECT k FROM u) AND v > 1);
SELECT DISTINCT t.k FROM t JOIN u ON t.k = u.k WHERE u.w > 1;
SELECT k, sum(c) x FROM (SELECT k, s, count(*) c FROM t GROUP BY k, s) GROUP BY k;
SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id, v, s) l, first_value(v) OVER (PARTITION BY k ORDER BY id, v, s) f FROM t;
SELECT id, k FROM t WHERE id IN (SELECT u.id FROM u GROUP BY u.id HAVING count(*) > 1);
SELECT k, bool_and(v > 1) a, bool_or(v > 1) b, sum(CASE WHEN v > 1 THEN 1 ELSE 0 END) c FROM t GROUP BY k;
SELECT s, k, count(*) OVER w a, sum(v) OVER (w ORDER BY id, k, v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) b FROM (SELECT DISTINCT * FROM t) WINDOW w AS (PARTITION BY s);
WITH RECURSIVE r AS (SELECT id, k FROM t UNION SELECT r.id, t.k FROM r JOIN t ON r.k = t.id) SELECT id, k FROM r;
WITH RECURSIVE r(a, b) AS (SELECT id, k FROM t WHERE k > 1 UNION SELECT r.a, u.k FROM r JOIN u ON r.b = u.id WHERE u.w > 1) SELECT a, count(*) n FROM r GROUP BY a;
WITH RECURSIVE r AS (SELECT id, k, 0 AS depth FROM t UNION ALL SELECT r.id, u.k, r.depth + 1 FROM r JOIN u ON r.k = u.id WHERE r.depth < 3) SELECT id, k, depth FROM r;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5), x AS (SELECT k, count(*) c FROM t GROUP BY k) SELECT n, c FROM r LEFT JOIN x ON r.n = x.k;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.w IN (SELECT v FROM t b WHERE b.k = t.k));
SELECT id, (SELECT max(w) FROM u WHERE u.k = t.k AND u.w IN (SELECT v FROM t b WHERE b.k = t.k)) m FROM t;
SELECT id FROM t WHERE EXISTS ((SELECT 1 FROM u WHERE u.k = t.k));
SELECT id FROM t WHERE k > ALL ((SELECT k FROM u) UNION ALL (SELECT id FROM u));
SELECT id, last_value(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY id, v, s) l FROM t;
SELECT id FROM t WHERE id > (SELECT sum(CAST(w AS DOUBLE) / 2) FROM u);
SELECT id FROM t WHERE k IN (SELECT k FROM u) OR v IN (SELECT w FROM u) OR id IN (SELECT id FROM u)
""".strip().split(";\n")

# DuckDB gives a row for the empty grouping set of an empty table, Spark gives none.
ONLY_ON_SPARK = """
SELECT k, s, count(*) c, grouping(k) g, grouping_id() h FROM t GROUP BY ROLLUP (k, s);
SELECT k, s, count(*) c FROM t GROUP BY CUBE (k, s);
SELECT k, s, sum(v) c FROM t GROUP BY GROUPING SETS ((k), (s), (), (k));
SELECT k, count_if(v > 1) c FROM t GROUP BY k;
SELECT id, x FROM t LATERAL VIEW explode(array(k, v)) e AS x;
SELECT id, x FROM t LATERAL VIEW OUTER explode(CASE WHEN k > 1 THEN array(k, v) END) e AS x;
SELECT id, p, x FROM t LATERAL VIEW posexplode(array(k, v)) e AS p, x WHERE x IS NOT NULL;
SELECT id, explode(array(k, k)) AS x FROM t;
SELECT k, x, count(*) AS n FROM t LATERAL VIEW explode(sequence(1, 2)) e AS x GROUP BY k, x;
SELECT id, m, n FROM t LATERAL VIEW explode(map('a', k, 'b', v)) e AS m, n;
SELECT k, transform(sort_array(collect_list(v)), x -> x + 1) AS l FROM t GROUP BY k;
SELECT named_struct('a', k, 'b', s) AS z, count(*) AS n FROM t GROUP BY k, s;
SELECT t.id, x.n FROM t JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.w > t.v) x;
SELECT x.z.*, x.id FROM (SELECT id, struct(k, v, v + 1, s AS t) AS z FROM t) x;
SELECT k, max(struct(v, id)).id AS best FROM t GROUP BY k;
SELECT k, (id, v) AS pair FROM t;
SELECT window.start AS begins, count(*) AS n FROM t GROUP BY window(timestamp_seconds(v), '2 seconds', '1 second');
SELECT id, p.pos, p.col FROM t JOIN posexplode(array(10, 20)) p ON p.pos = k - 1;
SELECT id, x, y FROM t, LATERAL inline(array(struct(k, v), struct(v AS k, k AS v))) AS i(x, y);
SELECT id, x, y FROM t LEFT JOIN LATERAL stack(2, k, s, v, s) AS i(x, y) ON x > 1;
SELECT * FROM (SELECT k, v, s FROM t) PIVOT (count(*) AS n, sum(v) AS v FOR k IN (1, NULL AS none));
SELECT * FROM (SELECT k, v, s FROM t) PIVOT (count(*) AS n, max(s) AS s FOR k IN (1, 9));
SELECT * FROM t UNPIVOT ((x, y) FOR name IN ((k, v) AS one, (v, id)));
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.w IN (SELECT v FROM t)
""".strip().split(";\n")
