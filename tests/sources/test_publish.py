"""Stream tables published to PostgreSQL: one whole snapshot there at every moment, whatever happens."""

from __future__ import annotations

import json

import pytest

from spark_trickle.cdc.postgres.connect import Connection
from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    RepairNeededError,
    TargetExistsError,
    TrickleError,
)
from spark_trickle.publish import ledger
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
    tr.sql("UNPUBLISH STREAM TABLE revenue")
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
def test_a_push_that_is_cut_off(
    revenue: Shop, after_the_commit_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after PostgreSQL committed: the next push neither loses nor doubles a row."""
    tr = revenue.tr
    tr.publish("revenue", "shop", "public.revenue_live")
    noted = ledger.note

    def cut(connection: Connection, *arguments: object) -> None:
        noted(connection, *arguments)  # type: ignore[arg-type]
        if after_the_commit_there:
            connection.execute("COMMIT")
        connection.pgconn.finish()

    tr.sql("UPDATE orders SET amount = amount * 2 WHERE id < 50")
    monkeypatch.setattr("spark_trickle.publish.apply.note", cut)
    with pytest.raises(TrickleError):
        tr.refresh("revenue")
    monkeypatch.undo()
    monkeypatch.setenv("SHOP_DSN", revenue.world.server.conninfo(revenue.world.database))
    if not after_the_commit_there:
        assert tr.answer("published_status").dicts()[0]["problem"]
    tr.push()
    same(revenue)
    assert tr.answer("published_status").dicts()[0]["problem"] == ""


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
    tr.unpublish("revenue", keep=True)
    assert revenue.world.rows("SELECT count(*) FROM revenue_live") == [(5,)]
    tr.sql("DETACH SOURCE shop")


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
