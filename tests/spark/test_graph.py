"""Graphs of stream tables: at one snapshot, in one commit, diamonds never torn, IMMEDIATE in the commit itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.errors import (
    CircularError,
    ConflictError,
    InUseError,
    QueryError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.model.stream import Action, Occasion
from spark_trickle.refresh.group import refresh_together
from spark_trickle.session import Trickle
from tests.conftest import Location, rows

pytestmark = pytest.mark.both_catalogs


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """Two sums over one table, a join of both, and a sum of the join; two IMMEDIATE ones, the second over the first."""
    with connect(tmp_path_factory.mktemp("graph") / "warehouse") as tr:
        tr.sql("CREATE TABLE a (id INT, k INT, v INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO a SELECT id, id % 5, id FROM range(60)")
        tr.sql("CREATE STREAM TABLE sums AS SELECT k, sum(v) AS s FROM a GROUP BY k")
        tr.sql("CREATE STREAM TABLE counts AS SELECT k, count(*) AS n FROM a GROUP BY k")
        tr.sql("CREATE STREAM TABLE joined AS SELECT sums.k, s, n FROM sums JOIN counts ON sums.k = counts.k")
        tr.sql("CREATE STREAM TABLE total AS SELECT sum(s) AS s, sum(n) AS n FROM joined")
        tr.sql(
            "CREATE STREAM TABLE now_sums REFRESH MODE IMMEDIATE AS SELECT k, sum(v) AS s FROM a GROUP BY k"
        )
        tr.sql("CREATE STREAM TABLE now_total REFRESH MODE IMMEDIATE AS SELECT sum(s) AS s FROM now_sums")
        yield tr


ALL = ("sums", "counts", "joined", "total", "now_sums", "now_total")
numbers = iter(range(1000, 100_000))


def change(tr: Trickle) -> None:
    n = next(numbers)
    with tr.transaction():
        tr.sql(f"INSERT INTO a VALUES ({n}, {n % 5}, 7)")
        tr.sql("UPDATE a SET v = v + 1, k = 4 - k WHERE id IN (3, 4)")
        tr.sql(f"DELETE FROM a WHERE id = {n - 990}")


def audit(tr: Trickle) -> None:
    for name in ALL:
        assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], name


def now_total(tr: Trickle) -> tuple[int, int]:
    return (
        tr.sql("SELECT s FROM now_total").collect()[0].s,
        tr.sql("SELECT sum(v) AS s FROM a").collect()[0].s,
    )


def test_a_whole_graph_moves_on_in_one_commit(shop: Trickle) -> None:
    change(shop)
    reports = shop.refresh_all()
    assert {r.name: r.action for r in reports if r.action is not Action.NO_DATA} == dict.fromkeys(
        ("main.sums", "main.counts", "main.joined", "main.total"), Action.DIFFERENTIAL
    )
    assert len({r.snapshot for r in reports if r.action is not Action.NO_DATA}) == 1
    audit(shop)
    assert {r.action for r in shop.refresh_all()} == {Action.NO_DATA}


def test_upstream_first(shop: Trickle) -> None:
    change(shop)
    before = shop.snapshot
    report = shop.refresh("total", upstream=True)
    assert (report.action, report.snapshot) == (Action.DIFFERENTIAL, before + 1)
    assert shop.sql("SELECT n FROM total").collect()[0].n == shop.sql("SELECT * FROM a").count()
    audit(shop)


def test_a_diamond_takes_its_arms_along(shop: Trickle) -> None:
    change(shop)
    shop.refresh("sums")  # one arm is ahead now
    change(shop)
    shop.refresh("joined")
    torn = shop.sql("SELECT * FROM joined EXCEPT SELECT k, sum(v), count(*) FROM a GROUP BY k")
    assert torn.collect() == []
    audit(shop)


def test_one_by_one_in_groups(shop: Trickle) -> None:
    change(shop)
    reports = {r.name: r.snapshot for r in shop.refresh_all(atomic=False)}
    assert reports["main.sums"] == reports["main.counts"] == reports["main.joined"] < reports["main.total"]
    audit(shop)


@pytest.mark.parametrize("atomic", [True, False])
def test_one_that_fails_holds_back_only_its_readers(tmp_path: Path, atomic: bool) -> None:
    with connect(tmp_path / "warehouse") as tr:
        tr.sql("CREATE TABLE b (v INT)")
        tr.create_stream_table("ratios", "SELECT v, 100 / v AS r FROM b")
        tr.create_stream_table("ratio_count", "SELECT count(*) AS n FROM ratios")
        tr.create_stream_table("zeros", "SELECT v FROM b WHERE v = 0")
        tr.create_stream_table("zero_count", "SELECT count(*) AS n FROM zeros")
        tr.sql("INSERT INTO b VALUES (0)")
        with pytest.raises(TrickleError, match=r"(?i)division") as caught:
            tr.refresh_all(atomic=atomic)
        assert "main.zeros, main.zero_count" in caught.value.__notes__[0]
        assert [rows(tr.sql(f"SELECT n FROM {name}")) for name in ("zero_count", "ratio_count")] == [
            [(1,)],
            [(0,)],
        ]
        tr.sql("UPDATE b SET v = 4")
        tr.refresh_all(atomic=atomic)
        assert [rows(tr.sql(f"SELECT n FROM {name}")) for name in ("zero_count", "ratio_count")] == [
            [(0,)],
            [(1,)],
        ]


def test_a_circle_is_refused_with_its_way(shop: Trickle) -> None:
    with pytest.raises(CircularError) as caught:
        shop.sql("ALTER STREAM TABLE sums AS SELECT k, n AS s FROM joined")
    assert caught.value.path == ("main.sums", "main.joined", "main.sums")


def test_immediate_is_part_of_every_commit(shop: Trickle) -> None:
    before = shop.snapshot
    shop.sql("UPDATE a SET v = v + 5 WHERE id < 20")
    assert shop.snapshot == before + 1
    kept, wanted = now_total(shop)
    assert kept == wanted
    assert shop.refresh("now_sums").action is Action.NO_DATA
    first = shop.sql(f"SELECT s FROM now_total VERSION AS OF {before}").collect()[0].s
    assert first == wanted - 5 * shop.sql("SELECT * FROM a WHERE id < 20").count()


def test_immediate_fails_with_its_statement(shop: Trickle) -> None:
    shop.sql(
        "CREATE STREAM TABLE shares REFRESH MODE IMMEDIATE AS SELECT id, 100 / v AS share FROM a WHERE id > 50000"
    )
    before = (shop.snapshot, shop.sql("SELECT * FROM a").count())
    with pytest.raises(QueryError, match=r'DIVIDE_BY_ZERO: in the IMMEDIATE stream table "main.shares"'):
        shop.sql("INSERT INTO a VALUES (60000, 1, 0)")
    assert (shop.snapshot, shop.sql("SELECT * FROM a").count()) == before
    shop.sql("INSERT INTO a VALUES (60001, 1, 10)")
    assert [tuple(r) for r in shop.sql("SELECT id, int(share) FROM shares").collect()] == [(60001, 10)]
    shop.sql("DROP STREAM TABLE shares")


def test_immediate_and_the_clock(shop: Trickle) -> None:
    with pytest.raises(UnsupportedError, match="current_date"):
        shop.sql("CREATE STREAM TABLE today REFRESH MODE IMMEDIATE AS SELECT id, current_date() AS d FROM a")
    shop.sql("CREATE STREAM TABLE today AS SELECT id, current_date() AS d FROM a")
    with pytest.raises(UnsupportedError, match="current_date"):
        shop.sql("ALTER STREAM TABLE today SET REFRESH MODE DIFFERENTIAL")
    shop.sql("DROP STREAM TABLE today")


def test_immediate_over_a_scheduled_one(shop: Trickle) -> None:
    shop.sql("CREATE STREAM TABLE after_sums REFRESH MODE IMMEDIATE AS SELECT max(s) AS m FROM sums")
    change(shop)
    stale = shop.sql("SELECT m FROM after_sums").collect()[0].m
    shop.sql("INSERT INTO a VALUES (70000, 0, 100000)")
    assert shop.sql("SELECT m FROM after_sums").collect()[0].m == stale
    shop.refresh("sums")
    assert (
        shop.sql("SELECT m FROM after_sums").collect() == shop.sql("SELECT max(s) AS m FROM sums").collect()
    )
    assert shop.sql("SELECT m FROM after_sums").collect()[0].m >= 100000
    shop.sql("DROP STREAM TABLE after_sums")


def _write_at_once(path: str, tr: Trickle, writers: int) -> None:
    failures: list[BaseException] = []

    def write(n: int) -> None:
        try:
            with connect(path, spark=tr.spark) as own:
                own.sql(f"INSERT INTO a VALUES ({200_000 + n}, {n % 5}, 1)")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert tr.sql("SELECT * FROM a WHERE id >= 200000").count() == writers
    kept, wanted = now_total(tr)
    assert kept == wanted
    tr.sql("DELETE FROM a WHERE id >= 200000")
    audit_now = [tr.sql(f"SELECT * FROM trickle.audit('{n}')").collect() for n in ("now_sums", "now_total")]
    assert audit_now == [[], []]


def folder(tr: Trickle) -> str:
    return tr.catalog_url.removeprefix("sqlite:///").removesuffix("/catalog.sqlite")


def test_writers_at_once_lose_nothing(shop: Trickle) -> None:
    _write_at_once(folder(shop), shop, 6)


@pytest.mark.slow
def test_a_hundred_writers_at_once_lose_nothing(shop: Trickle) -> None:
    _write_at_once(folder(shop), shop, 100)


def test_an_immediate_source_that_moves_on_meanwhile(tr_sqlite: Trickle) -> None:
    """Stream tables that move on together know each other up to their commit, but not those beside them."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
    tr.sql("CREATE STREAM TABLE now_there REFRESH MODE IMMEDIATE AS SELECT id, x FROM t")
    tr.sql("CREATE STREAM TABLE arm AS SELECT id, x * 2 AS y FROM t")
    tr.sql("CREATE STREAM TABLE tip AS SELECT n.id, n.x, a.y FROM now_there n LEFT JOIN arm a ON n.id = a.id")
    tr.sql("INSERT INTO t VALUES (1, 1)")
    work = tr._connection.begin_work()
    chosen = [t for t in work.catalog.tables() if t.name in ("arm", "tip")]
    reports = refresh_together(work, sorted(chosen, key=lambda t: t.name), Occasion(together=True))
    tr.sql("INSERT INTO t VALUES (2, 2)")
    with pytest.raises(ConflictError):
        tr._parts.refresher.commit(work, reports)
    tr.refresh_all()
    assert rows(tr.table("tip")) == [(1, 1, 2), (2, 2, 4)]
    tr.sql("DELETE FROM t WHERE id = 2")
    tr.refresh_all()
    assert rows(tr.table("tip")) == [(1, 1, 2)]


def test_a_transaction_from_before_an_immediate_stream_table_is_seen_by_it(
    tr: Trickle, location: Location
) -> None:
    tr.sql("CREATE TABLE w (x INT)")
    with location.connect() as early, location.connect() as late:
        early.sql("BEGIN")
        early.sql("INSERT INTO w VALUES (1)")
        tr.sql("CREATE STREAM TABLE counted REFRESH MODE IMMEDIATE AS SELECT count(*) AS n FROM w")
        late.sql("BEGIN")
        late.sql("INSERT INTO w VALUES (2)")
        with pytest.raises(ConflictError, match="was defined by snapshot"):
            early.sql("COMMIT")
        late.sql("COMMIT")
        early.sql("INSERT INTO w VALUES (1)")
    assert rows(tr.table("counted")) == [(2,)]


def test_many_definitions_in_one_commit(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (k INT)")
    tr.sql("INSERT INTO t VALUES (1), (2)")
    definitions = [
        {"name": "one", "query": "SELECT k FROM t"},
        {"name": "two", "query": "SELECT count(*) AS n FROM one"},
        {"name": "now", "query": "SELECT sum(k) AS s FROM t", "refresh_mode": "IMMEDIATE"},
    ]
    tr.sql(f"SELECT * FROM trickle.bulk_create('{json.dumps(definitions)}')").collect()
    assert tr.refresh("two").action is Action.NO_DATA
    assert rows(tr.table("two")) == [(2,)]
    tr.sql("INSERT INTO t VALUES (3)")
    tr.refresh("two", upstream=True)
    assert rows(tr.table("two")) == [(3,)]
    assert rows(tr.table("now")) == [(6,)]


def test_a_view_that_is_replaced_makes_what_reads_it_anew(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (x INT)")
    tr.sql("INSERT INTO t VALUES (1), (200)")
    tr.sql("CREATE VIEW v AS SELECT * FROM t WHERE x > 0")
    tr.sql("CREATE VIEW vv AS SELECT * FROM v")
    tr.sql("CREATE STREAM TABLE s AS SELECT x FROM vv")
    for view in ("v", "vv"):
        with pytest.raises(InUseError, match=r"main\.s"):
            tr.sql(f"DROP VIEW {view}")
    tr.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM t WHERE x > 100")
    report = tr.refresh("s")
    assert report.action is Action.REINITIALIZE
    assert "the view main.v was replaced" in report.reason
    assert rows(tr.table("s")) == [(200,)]
    assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []
    assert tr.refresh("s").action is Action.NO_DATA
    tr.sql("DROP STREAM TABLE s")
    tr.sql("DROP VIEW vv")


def test_a_query_that_is_read_again_means_the_tables_it_meant(tr: Trickle) -> None:
    """They were renamed, and others took their names."""
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, d DOUBLE)")
    tr.sql("INSERT INTO t VALUES (1, 1, 0.5), (2, 1, 0.25)")
    tr.sql("CREATE STREAM TABLE s AS SELECT t.k, sum(d) AS d FROM t GROUP BY k")
    tr.sql("CREATE STREAM TABLE copied AS SELECT id, d FROM t")
    for alter in (
        "RENAME COLUMN d TO e",
        "RENAME COLUMN id TO number",
        "ADD COLUMN d DOUBLE",
        "RENAME TO t_old",
    ):
        tr.sql(f"ALTER TABLE t {alter}")
    tr.sql("CREATE TABLE t (id INT, k INT, d DOUBLE)")
    tr.sql("INSERT INTO t_old VALUES (3, 2, 4.0, 7.0)")
    assert tr.refresh("copied").action is Action.DIFFERENTIAL  # its key is still one
    tr.sql("ALTER STREAM TABLE s SET (exact_floats = true)")
    for name, found in {"s": [(1, 0.75), (2, 4.0)], "copied": [(1, 0.5), (2, 0.25), (3, 4.0)]}.items():
        tr.refresh(name)
        assert rows(tr.table(name)) == found
        assert rows(tr.sql(f"SELECT * FROM trickle.audit('{name}')")) == []
