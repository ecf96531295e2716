"""The Spark session is the user's: its settings, tables and active session stay as they are whatever we do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession, is_remote
from pyspark.sql.types import LongType

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from spark_trickle.spark import child_session
from spark_trickle.spark.child_session import child_of
from spark_trickle.spark.session import open_session

WATCHED = (
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.session.timeZone",
)
# What only Spark can tell, so that a refresh takes a small job.
QUERIES = {
    "filtered": "SELECT id, abs(n) AS a FROM t WHERE n > 1",
    "joined": "SELECT t.id, k.name FROM t JOIN k ON abs(t.c) = k.c",
    "summed": "SELECT c, sum(abs(n)) AS s FROM t GROUP BY c",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY c ORDER BY n, id) AS r FROM t",
}


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("sessions") / "warehouse") as made:
        made.sql("CREATE TABLE t (id BIGINT, c INT, n INT, PRIMARY KEY (id))")
        made.sql("CREATE TABLE k (c INT, name STRING, PRIMARY KEY (c))")
        made.sql("INSERT INTO t SELECT id, id % 20, id FROM range(5000)")
        made.sql("INSERT INTO k SELECT id, concat('n', id) FROM range(20)")
        for name, query in QUERIES.items():
            made.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        yield made


@contextmanager
def watched(look: Callable[[], object]) -> Iterator[set[object]]:
    """All that another thread of the user saw meanwhile."""
    seen, done, begun = {look()}, Event(), Event()

    def watch() -> None:
        while not done.is_set():
            seen.add(look())
            begun.set()

    thread = Thread(target=watch)
    thread.start()
    begun.wait()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def settings(tr: Trickle) -> tuple[str | None, ...]:
    return tuple(tr.spark.conf.get(name, None) for name in WATCHED)


def names(spark: SparkSession) -> set[str]:
    """`spark.catalog.listTables` reads the same list, and fails where Spark interprets queries."""
    return {r["tableName"] for r in spark.sql("SHOW TABLES").collect()}


def test_settings_stay_as_they_are_while_small_refreshes_run(tr: Trickle) -> None:
    tr.sql("UPDATE t SET n = n + 1 WHERE id < 10")
    with watched(lambda: settings(tr)) as seen:
        for name in QUERIES:
            assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert len(seen) == 1


@pytest.mark.skipif(is_remote(), reason="over Spark Connect both kinds of jobs share one child")
def test_small_and_large_jobs_have_sessions_of_their_own(tr: Trickle, tmp_path: Path) -> None:
    """Made when they are needed: none for what the driver computes, and one for each kind of job."""
    with connect(tmp_path / "warehouse", spark=tr.spark) as first:
        first.sql("CREATE TABLE t (id BIGINT, c INT, n INT, PRIMARY KEY (id))")
        first.sql("INSERT INTO t SELECT id, id % 20, id FROM range(5000)")
        first.sql("CREATE STREAM TABLE summed AS SELECT c, sum(n) AS s FROM t GROUP BY c")
        first.sql(f"CREATE STREAM TABLE filtered REFRESH MODE DIFFERENTIAL AS {QUERIES['filtered']}")
    parent = tr.spark.newSession()
    parent.conf.set("spark.sql.shuffle.partitions", "3")

    def look() -> tuple[object, ...]:
        children = child_session._BY_USE.get(parent, {})
        return tuple(
            (is_small, *(c.spark.conf.get(n, None) for n in WATCHED[:2]))
            for (_, is_small), c in sorted(children.items())
        )

    few, many = (True, "false", "1"), (False, parent.conf.get(WATCHED[0], None), "3")
    with connect(tmp_path / "warehouse", spark=parent) as own:
        own.sql("UPDATE t SET n = n + 1 WHERE id = 1")
        own.refresh("summed")
        assert look() == ()
        own.refresh("filtered")
        assert look() == (few,)
        own.sql("CREATE STREAM TABLE plain AS SELECT id, abs(c) AS c FROM t")
        with watched(look) as seen:
            for step in range(3):
                own.sql(f"UPDATE t SET n = n + 1 WHERE id = {step}")
                own.refresh_all()
        assert seen == {(many, few)}


def test_what_a_small_job_computed_is_read_with_many_rows(tr: Trickle) -> None:
    """A few groups change, and with them so many rows that the executors write them."""
    tr.sql("CREATE TABLE many (id INT, g INT, v INT, PRIMARY KEY (id))")
    tr.sql("INSERT INTO many SELECT id, id % 3, id * 2 FROM range(2000)")
    query = "SELECT id, v, s FROM many JOIN (SELECT g, sum(v) AS s FROM many GROUP BY g) USING (g)"
    tr.sql(f"CREATE STREAM TABLE spread REFRESH MODE DIFFERENTIAL AS {query}")
    tr.sql("SET trickle.max_driver_rows = 100")
    try:
        for step in range(3):
            tr.sql(f"UPDATE many SET v = v + 1 WHERE id BETWEEN {step} AND {step + 2}")
            report = tr.refresh("spread")
            assert (report.action, report.rows_inserted) == (Action.DIFFERENTIAL, 2000)
            assert tr.sql("SELECT * FROM trickle.audit('spread')").count() == 0
    finally:
        tr.sql("SET trickle.max_driver_rows = 10000")


def test_the_active_session_stays_the_same(tr: Trickle) -> None:
    def look() -> SparkSession | None:
        if SparkSession.getActiveSession() is None:  # each thread has one
            tr.spark.createDataFrame([], "a INT")
        return SparkSession.getActiveSession()

    tr.sql("UPDATE t SET n = n + 1 WHERE id < 10")
    with watched(look) as seen:
        tr.refresh_all()
    assert seen == {tr.spark}
    assert look() is tr.spark


def test_nothing_of_ours_is_among_the_tables_of_the_session(tr: Trickle) -> None:
    tr.sql("UPDATE t SET n = n + 1 WHERE id BETWEEN 20 AND 29")
    tr.refresh_all()
    tr.sql("SELECT * FROM joined JOIN t USING (id)").count()
    tr.sql("CREATE STREAM TABLE another AS SELECT count(DISTINCT name) AS n FROM k")
    tr.sql("OPTIMIZE t")
    assert {n for n in names(tr.spark) if "trickle" in n} == set()


def test_results_belong_to_the_session_of_the_user(tr: Trickle) -> None:
    tr.spark.range(3).createOrReplaceTempView("of_the_user")
    frame = tr.sql("SELECT summed.c FROM summed JOIN of_the_user ON c = of_the_user.id")
    assert frame.sparkSession is tr.spark
    assert frame.join(tr.spark.table("of_the_user"), frame.c == tr.spark.table("of_the_user").id).count() == 3
    tr.spark.catalog.dropTempView("of_the_user")


def test_a_refresh_follows_settings_that_decide_about_values(tr: Trickle) -> None:
    tr.sql("CREATE TABLE m (id BIGINT, a STRING, b STRING)")
    tr.sql("INSERT INTO m SELECT id, 'x', 'y' FROM range(3)")
    tr.sql(
        "CREATE STREAM TABLE maps REFRESH MODE DIFFERENTIAL AS SELECT id, map_from_arrays(array(a, b), array(1, 2))['x'] AS v FROM m"
    )
    policy = "spark.sql.mapKeyDedupPolicy"
    tr.sql("INSERT INTO m VALUES (9, 'x', 'x')")
    with pytest.raises(Exception, match="DUPLICATED_MAP_KEY"):
        tr.refresh("maps")
    tr.spark.conf.set(policy, "LAST_WIN")
    try:
        tr.refresh("maps")
        assert tr.sql("SELECT v FROM maps WHERE id = 9").collect() == [(2,)]
        assert tr.sql("SELECT * FROM trickle.audit('maps')").count() == 0
    finally:
        tr.spark.conf.unset(policy)


def test_large_refreshes_follow_all_settings(tr: Trickle) -> None:
    tr.spark.conf.set("spark.sql.shuffle.partitions", "3")
    tr.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "77")
    tr.sql("SET trickle.max_driver_rows = 2")  # the executors write
    try:
        tr.sql("CREATE STREAM TABLE sized AS SELECT n, count(abs(id)) AS c FROM t GROUP BY n")
        child = child_of(tr.spark)
        assert child is not None
        found = child.spark.conf.getAll
        assert found["spark.sql.shuffle.partitions"] == "3"
        assert found["spark.sql.autoBroadcastJoinThreshold"] == "77"
        tr.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        child.follow_all()
        assert "spark.sql.autoBroadcastJoinThreshold" not in child.spark.conf.getAll
    finally:
        tr.spark.conf.set("spark.sql.shuffle.partitions", "4")
        tr.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        tr.sql("SET trickle.max_driver_rows = 10000")


def test_functions_that_were_registered_in_the_session_are_found(tr: Trickle) -> None:
    tr.spark.udf.register("one_more", lambda n: n + 1, LongType())
    tr.spark.sql("CREATE TEMPORARY FUNCTION two_more(x BIGINT) RETURNS BIGINT RETURN x + 2")
    query = "SELECT c, one_more(max(id)) AS a, two_more(min(id)) AS b FROM t GROUP BY c"
    tr.sql(f"CREATE STREAM TABLE own REFRESH MODE DIFFERENTIAL AS {query}")
    for step in range(2):
        tr.sql(f"UPDATE t SET c = c + 1 WHERE id = {step}")
        with watched(lambda: settings(tr)) as seen:
            assert tr.refresh("own").action is Action.DIFFERENTIAL
        assert len(seen) == 1
    assert tr.sql("SELECT * FROM trickle.audit('own')").count() == 0
    assert {n for n in names(tr.spark) if "trickle" in n} == set()
    tr.sql("DROP STREAM TABLE own")


def test_an_audit_with_functions_of_the_session_tells_of_the_time_zone(tr: Trickle) -> None:
    zone = "spark.sql.session.timeZone"
    before = tr.spark.conf.get(zone)
    tr.spark.udf.register("same", lambda n: n, LongType())
    tr.sql("CREATE TABLE hours (id BIGINT, at TIMESTAMP)")
    tr.sql("INSERT INTO hours VALUES (1, TIMESTAMP'2026-01-01 23:30:00Z')")
    tr.spark.conf.set(zone, "Asia/Tokyo")
    tr.sql("CREATE STREAM TABLE late AS SELECT same(id) AS id, date(at) AS day FROM hours")
    tr.spark.conf.set(zone, "UTC")
    try:
        with pytest.warns(UserWarning, match='the time zone of the session is "Asia/Tokyo" during the audit'):
            assert tr.sql("SELECT * FROM trickle.audit('late')").count() == 0
        assert tr.spark.conf.get(zone) == "UTC"
    finally:
        tr.spark.conf.set(zone, str(before))


def test_loggers_of_pyspark_keep_a_level_that_was_given_to_them(tr: Trickle) -> None:
    loggers = [logging.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    assert [logger.level for logger in loggers] == [logging.CRITICAL] * 2
    for logger in loggers:
        logger.setLevel(logging.INFO)
    open_session(tr.spark)
    assert [logger.level for logger in loggers] == [logging.INFO] * 2
    with pytest.raises(ArithmeticException):
        tr.spark.sql("SELECT 1 / 0").collect()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)


def test_an_audit_in_another_time_zone_leaves_that_of_the_user_alone(tr: Trickle) -> None:
    zone = "spark.sql.session.timeZone"
    before = tr.spark.conf.get(zone)
    tr.sql("CREATE TABLE moments (id BIGINT, at TIMESTAMP)")
    tr.sql("INSERT INTO moments VALUES (1, TIMESTAMP'2026-01-01 23:30:00Z'), (2, NULL)")
    tr.spark.conf.set(zone, "Asia/Tokyo")
    tr.sql("CREATE STREAM TABLE days AS SELECT id, date(at) AS day, at FROM moments")
    tr.spark.conf.set(zone, "UTC")
    try:
        with watched(lambda: settings(tr)) as seen:
            differing = tr.sql("SELECT * FROM trickle.audit('days')")
            assert differing.count() == 0
        assert differing.sparkSession is tr.spark
        assert len(seen) == 1
    finally:
        tr.spark.conf.set(zone, str(before))
