"""Stream tables published to PostgreSQL: one whole snapshot there at every moment, whatever happens."""

from __future__ import annotations

import json

import pytest

from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    RepairNeededError,
    SourceLostError,
    TargetChangedError,
    TargetExistsError,
    TrickleError,
)
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.postgres import ledger
from tests.sources.conftest import Shop

REVENUE = "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"


@pytest.fixture
def revenue(shop: Shop) -> Shop:
    shop.tr.sql("CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount DECIMAL(12, 2))")
    shop.tr.sql("INSERT INTO orders SELECT id, concat('c', id % 5), id * 1.25 FROM range(100)")
    shop.tr.create_stream_table("revenue", REVENUE)
    shop.attach()
    return shop


def same(shop: Shop, table: str = "public.revenue_live", name: str = "revenue") -> None:
    assert shop.there(f"SELECT * FROM {table}") == shop.here(f"SELECT * FROM {name}")


@pytest.mark.shows("postgres", "each refresh once, in one commit")
def test_a_stream_table_is_followed(revenue: Shop) -> None:
    tr = revenue.tr
    tr.sql("PUBLISH STREAM TABLE revenue TO SOURCE shop AS public.revenue_live")
    same(revenue)
    listener = revenue.world.application()
    listener.execute("LISTEN trickle_published")
    for statement in (
        "UPDATE orders SET amount = amount + 1 WHERE id < 10",
        "DELETE FROM orders WHERE customer = 'c3'",
        "INSERT INTO orders VALUES (900, 'new', 1), (901, NULL, 2)",
    ):
        tr.sql(statement)
        report = tr.refresh("revenue")
        same(revenue)
        told = next(listener.notifies(timeout=5, stop_after=1))
        assert json.loads(told.payload)["snapshot"] == report.snapshot
    row = tr.answer("published_status").dicts()[0]
    assert (row["published_as"], row["key"], row["problem"]) == ("public.revenue_live", "customer", "")
    assert row["rows"] == 6
    tr.sql("UNPUBLISH STREAM TABLE revenue DROP TABLE")
    assert not revenue.world.rows("SELECT FROM pg_class WHERE relname = 'revenue_live'")
    assert tr.answer("published_status").rows == []


def test_a_bag_without_a_key(revenue: Shop) -> None:
    tr = revenue.tr
    tr.create_stream_table("bag", "SELECT customer FROM orders WHERE id < 20")
    tr.publish("bag", "shop", "public.bag")
    same(revenue, "public.bag", "bag")
    tr.sql("UPDATE orders SET customer = NULL WHERE id IN (3, 8)")
    tr.sql("DELETE FROM orders WHERE id = 13")
    tr.refresh("bag")
    same(revenue, "public.bag", "bag")
    assert tr.answer("published_status").dicts()[0]["key"] == ""


def test_a_round_trip(shop: Shop) -> None:
    """From PostgreSQL through a mirror and a stream table to PostgreSQL."""
    shop.run("CREATE TABLE sales (id int PRIMARY KEY, item text, n int)")
    shop.run("INSERT INTO sales SELECT g, 'i' || g % 7, g FROM generate_series(1, 200) g")
    shop.attach("auto")
    shop.tr.create_mirror("sales", "shop.public.sales")
    query = "SELECT item, sum(n) AS n FROM sales GROUP BY item"
    shop.tr.create_stream_table("by_item", query)
    shop.tr.publish("by_item", "shop", "public.by_item")
    for number in range(4):
        shop.run(
            f"UPDATE sales SET n = n + 1, item = 'i' || n % 9 WHERE id % 4 = {number}",
            f"DELETE FROM sales WHERE id = {number + 50}",
        )
        shop.tr.sync("shop")
        shop.tr.refresh("by_item")
        assert shop.there("SELECT * FROM by_item") == shop.there(query)


@pytest.mark.parametrize("limit", [10, 100_000])
def test_many_rows(revenue: Shop, limit: int) -> None:
    tr = revenue.tr
    tr.sql(f"SET trickle.max_driver_rows = {limit}")
    tr.create_stream_table("all_orders", "SELECT id, customer, amount FROM orders")
    tr.publish("all_orders", "shop", "live.all_orders")
    same(revenue, "live.all_orders", "all_orders")
    tr.sql("UPDATE orders SET amount = 0 WHERE id % 2 = 0")
    tr.refresh("all_orders")
    same(revenue, "live.all_orders", "all_orders")
    assert revenue.tr.answer("published_status").dicts()[0]["key"] == "id"


@pytest.mark.parametrize("after_the_commit_there", [False, True])
@pytest.mark.shows("postgres", "a process killed while it publishes")
def test_a_push_that_is_cut_off(
    revenue: Shop, after_the_commit_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after PostgreSQL committed: the next push neither loses nor doubles a row."""
    tr = revenue.tr
    tr.publish("revenue", "shop", "public.revenue_live")
    noted = ledger.note_change

    def cut(connection: Connection, *arguments: object) -> None:
        noted(connection, *arguments)  # type: ignore[arg-type]
        if after_the_commit_there:
            connection.execute("COMMIT")
        connection.pgconn.finish()

    tr.sql("UPDATE orders SET amount = amount * 2 WHERE id < 50")
    monkeypatch.setattr("spark_trickle.targets.postgres.apply.note_change", cut)
    with pytest.raises(TrickleError):
        tr.refresh("revenue")
    monkeypatch.undo()
    monkeypatch.setenv("SHOP_DSN", revenue.world.server.conninfo(revenue.world.database))
    if not after_the_commit_there:
        assert tr.answer("published_status").dicts()[0]["problem"]
    tr.push()
    same(revenue)
    assert tr.answer("published_status").dicts()[0]["problem"] == ""


@pytest.mark.shows("postgres", "changes by others are noticed", "repaired by comparison")
def test_what_others_did_is_noticed_and_mended(revenue: Shop) -> None:
    tr = revenue.tr
    tr.publish("revenue", "shop", "public.revenue_live")
    revenue.run(
        "DELETE FROM revenue_live WHERE customer = 'c1'",
        "UPDATE revenue_live SET n = -1 WHERE customer = 'c2'",
    )
    tr.sql("UPDATE orders SET amount = 1 WHERE customer = 'c1'")
    with pytest.raises(RepairNeededError):
        tr.refresh("revenue")
    tr.sql("PUBLISH STREAM TABLE revenue REPAIR")
    same(revenue)
    tr.sql("DELETE FROM orders WHERE id = 1")
    tr.refresh("revenue")
    same(revenue)


def test_what_is_refused(revenue: Shop) -> None:
    tr = revenue.tr
    revenue.run("CREATE TABLE mine (a int)")
    with pytest.raises(TargetExistsError):
        tr.publish("revenue", "shop", "public.mine")
    with pytest.raises(TrickleError):
        tr.publish("orders", "shop", "public.orders")  # not a stream table
    with pytest.raises(NotPublishedError):
        tr.unpublish("revenue")
    tr.publish("revenue", "shop", "public.revenue_live")
    with pytest.raises(InvalidDefinitionError, match="already"):
        tr.publish("revenue", "shop", "public.other")
    for statement in (
        "DROP STREAM TABLE revenue",
        "DETACH SOURCE shop",
        "CREATE OR REPLACE STREAM TABLE revenue AS SELECT 1 AS one",
    ):
        with pytest.raises(InvalidDefinitionError, match="published"):
            tr.sql(statement)
    tr.unpublish("revenue")
    assert revenue.world.rows("SELECT count(*) FROM revenue_live") == [(5,)]
    tr.sql("DETACH SOURCE shop")


def test_a_table_that_was_kept_is_published_again(revenue: Shop) -> None:
    """Its readers see the old rows until the new ones are there."""
    tr = revenue.tr
    tr.publish("revenue", "shop", "public.revenue_live")
    tr.sql("UNPUBLISH STREAM TABLE revenue")
    tr.sql("UPDATE orders SET amount = amount * 2 WHERE customer = 'c1'")
    tr.refresh("revenue")
    pushed = tr.publish("revenue", "shop", "public.revenue_live")
    assert (pushed.rows_inserted, pushed.rows_deleted) == (1, 1)
    same(revenue)


def test_one_that_fails_does_not_hold_back_the_others(revenue: Shop) -> None:
    tr = revenue.tr
    tr.create_stream_table("totals", "SELECT sum(total) AS total FROM revenue")
    tr.create_stream_table("names", "SELECT DISTINCT customer FROM orders")
    for name in ("revenue", "totals", "names"):
        tr.publish(name, "shop", f"public.{name}_live")
    revenue.run("ALTER TABLE revenue_live RENAME TO away")
    for atomic in (True, False):
        tr.sql(f"INSERT INTO orders VALUES ({900 + atomic}, 'new{atomic}', 1)")
        with pytest.raises(TrickleError, match="revenue_live"):
            tr.refresh_all(atomic=atomic)
        for name in ("totals", "names"):
            same(revenue, f"public.{name}_live", name)
        assert revenue.here("SELECT count(*) FROM names") == revenue.here("SELECT count(*) FROM revenue")


def test_vacuum_waits_for_what_is_published(revenue: Shop) -> None:
    tr = revenue.tr
    tr.publish("revenue", "shop", "public.revenue_live")
    revenue.run("ALTER TABLE revenue_live RENAME TO away")
    tr.sql("UPDATE orders SET amount = 5 WHERE id < 5")
    with pytest.raises(TrickleError):
        tr.refresh("revenue")
    tr.sql("VACUUM RETAIN 0 HOURS")
    revenue.run("ALTER TABLE away RENAME TO revenue_live")
    tr.push()
    same(revenue)


GROWTH = [
    ("int", "bigint", "3000000000"),
    ("varchar(10)", "text", "'longer than ten'"),
    ("numeric(10, 2)", "numeric(14, 4)", "1.2345"),
    ("real", "double precision", "0.1"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("before", "after", "large"), GROWTH)
@pytest.mark.shows("postgres", "wider types are followed")
def test_a_type_that_grows_is_followed(shop: Shop, before: str, after: str, large: str) -> None:
    """Through the mirror, two stream tables over one another, and what is published of them."""
    shop.run(f"CREATE TABLE t (id int PRIMARY KEY, v {before})")
    shop.run(f"INSERT INTO t SELECT g, g::text::{before} FROM generate_series(1, 5) g")
    shop.attach()
    tr = shop.tr
    tr.create_mirror("t", "shop.public.t")
    tr.create_stream_table("rows_of_t", "SELECT id, v FROM t WHERE id > 1")
    tr.create_stream_table("groups", "SELECT v, count(*) AS n, max(id) AS m FROM rows_of_t GROUP BY v")
    for name in ("rows_of_t", "groups"):
        tr.publish(name, "shop", f"live.{name}")
    shop.run(f"ALTER TABLE t ALTER v TYPE {after}")
    tr.sync("shop")
    tr.sql("RESYNC TABLE t")
    tr.refresh_all()
    for name in ("rows_of_t", "groups"):
        assert tr.answer("published_status").dicts()[0]["problem"] == ""
        same(shop, f"live.{name}", name)
    shop.run(f"INSERT INTO t VALUES (6, {large})", "UPDATE t SET id = 7 WHERE id = 2")
    tr.sync("shop")
    tr.refresh_all()
    for name in ("rows_of_t", "groups"):
        same(shop, f"live.{name}", name)
    query = "SELECT id, v FROM t WHERE id > 1"
    assert shop.there("SELECT * FROM live.rows_of_t") == shop.there(query)


def test_a_type_that_cannot_be_followed_is_named(shop: Shop) -> None:
    """Whoever reads the published table keeps the last exact rows until there are others."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, '10')")
    shop.attach()
    tr, query = shop.tr, "SELECT id, v FROM t"
    tr.create_mirror("t", "shop.public.t")
    tr.create_stream_table("s", query)
    tr.publish("s", "shop", "public.live")
    shop.run("ALTER TABLE t ALTER v TYPE int USING v::int")
    tr.sync("shop")
    tr.sql("RESYNC TABLE t")
    with pytest.raises(SourceLostError, match='now has another column "v", of type INT instead of STRING'):
        tr.refresh("s")
    with pytest.raises(InvalidDefinitionError, match="stays for its readers"):
        tr.sql(f"ALTER STREAM TABLE s AS {query} WHERE id > 0")
    tr.sql("UNPUBLISH STREAM TABLE s")
    tr.sql(f"ALTER STREAM TABLE s AS {query} WHERE id > 0")
    with pytest.raises(TargetChangedError, match='column "v" has type text, not integer'):
        tr.publish("s", "shop", "public.live")
    assert shop.there("SELECT * FROM live") == {("1", "'10'"): 1}
    tr.publish("s", "shop", "public.live_2")
    assert shop.there("SELECT * FROM live_2") == {("1", "10"): 1}
