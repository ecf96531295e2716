"""A process that uses a warehouse over Spark Connect: the server is started from the wheel of PySpark.

It prints what each statement answered as JSON, numbers of rows first; an error by its code.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import spark_trickle
from spark_trickle.errors import TrickleError
from spark_trickle.session import Trickle

DRIVER, EXECUTORS = "SET trickle.max_driver_rows = 100000", "SET trickle.max_driver_rows = 2"
LISTED = "the tables that Spark lists, and the settings of a small refresh that it has"
AUDIT = "SELECT count(*) FROM trickle.audit('{}')"

# A statement, and the first numbers of its answer or the code of its error.
STEPS: tuple[tuple[str, list[int] | str], ...] = (
    ("CREATE TABLE t (id BIGINT, v STRING, n INT, PRIMARY KEY (id))", [0, 0, 0]),
    ("CREATE TABLE k (a INT, b STRING)", [0, 0, 0]),
    ("SELECT count(*) FROM trickle.files('k')", [0]),
    ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)", [2, 0, 0]),
    ("INSERT INTO k VALUES (1, 'x'), (1, 'x'), (2, 'y')", [3, 0, 0]),
    ("CREATE STREAM TABLE sums AS SELECT n, count(*) AS c, avg(id) AS m FROM t GROUP BY n", [2, 0, 0]),
    (
        "CREATE STREAM TABLE j REFRESH MODE DIFFERENTIAL AS SELECT t.id, k.b FROM t JOIN k ON t.n = k.a",
        [3, 0, 0],
    ),
    ("CREATE STREAM TABLE f REFRESH MODE FULL AS SELECT DISTINCT v FROM t", [2, 0, 0]),
    ("CREATE STREAM TABLE im REFRESH MODE IMMEDIATE AS SELECT v, max(id) AS m FROM t GROUP BY v", [2, 0, 0]),
    ("UPDATE t SET n = 2 WHERE id = 1", [0, 1, 0]),
    (EXECUTORS, [0, 0, 0]),
    ("INSERT INTO t SELECT id, 'z', 1 FROM range(10, 60)", [50, 0, 0]),
    ("UPDATE t SET n = n + 1 WHERE id >= 10", [0, 50, 0]),
    ("DELETE FROM t WHERE id >= 50", [0, 0, 10]),
    (
        "MERGE INTO t USING (SELECT id, uuid() AS u FROM range(40, 60)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.u, 3)",
        [10, 10, 0],
    ),
    ("INSERT INTO t SELECT 1, 'a', id FROM range(10)", "DUPLICATE_KEY"),
    ("REFRESH STREAM TABLE sums", [2, 0, 2]),
    ("REFRESH STREAM TABLE j", [41, 0, 2]),
    (DRIVER, [0, 0, 0]),
    ("REFRESH STREAM TABLE f", [12, 0, 0]),
    *((AUDIT.format(name), [0]) for name in ("sums", "j", "f", "im")),
    ("SELECT count(*) FROM t", [52]),
    ("SELECT count(*) FROM t VERSION AS OF 3", [2]),
    ("SELECT count(*) FROM trickle.changes('t', 3)", [192]),
    ("SELECT count(*) FROM trickle.status()", [4]),
    (LISTED, [0, 0]),
    ("OPTIMIZE t", [0, 0, 0]),
    ("VACUUM", [0, 0, 0]),
    ("ALTER TABLE t ADD COLUMN x INT DEFAULT 5", [0, 0, 0]),
    ("SELECT sum(x) FROM t", [260]),
    ("SELECT * FROM missing", "TABLE_NOT_FOUND"),
    ("SELECT missing FROM t", "COLUMN_NOT_FOUND"),
    ("SELECT 1 +", "SYNTAX_ERROR"),
    ("INSERT INTO k SELECT 1 / 0, 'x'", "QUERY_ERROR"),
)


def answer(tr: Trickle, statement: str) -> Any:
    if statement == LISTED:
        adaptive = tr.spark.conf.get("spark.sql.adaptive.enabled")
        return [len(tr.spark.catalog.listTables()), int(adaptive != "true")]
    try:
        return list(tr.sql(statement).first())[:3]
    except TrickleError as error:
        return error.code


def main(folder: str) -> None:
    with spark_trickle.connect(folder, settings={"auto_compact": False}) as tr:
        print(json.dumps([answer(tr, statement) for statement, _ in STEPS]))


if __name__ == "__main__":
    main(sys.argv[1])
