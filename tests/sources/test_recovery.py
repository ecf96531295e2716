"""What goes wrong between a source and its mirrors: nothing is lost or doubled, or it is told and mended."""

from __future__ import annotations

import warnings

import pytest

import spark_trickle
from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import (
    SourceBusyError,
    SourceLostError,
    SourceSchemaChangedError,
    SourceSetupError,
    SourceUnavailableError,
)
from spark_trickle.model.backoff import Backoff
from spark_trickle.sources import by_log, captures, transition
from spark_trickle.txn.work import begin_work
from tests.sources.conftest import Shop

ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12, 2))",
    "INSERT INTO orders SELECT g, 'c' || g % 5, g * 1.25 FROM generate_series(1, 100) g",
]
BY_CUSTOMER = "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer"


def mirrored(shop: Shop, mode: str = "trigger", **options: str) -> None:
    shop.run(*ORDERS)
    shop.attach(mode, **options)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.create_stream_table("by_customer", BY_CUSTOMER)


def exact(shop: Shop) -> None:
    shop.check("SELECT * FROM orders")
    shop.tr.refresh("by_customer")
    shop.check(BY_CUSTOMER, "by_customer")


LOSSES = [
    "ALTER TABLE orders DISABLE TRIGGER USER; UPDATE orders SET amount = 0 WHERE id < 9; ALTER TABLE orders ENABLE TRIGGER USER",
    "ALTER TABLE orders ALTER customer TYPE text USING upper(customer)",
    "DROP SCHEMA trickle_changes CASCADE",
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.shows("postgres", "history that is gone is noticed, never guessed")
def test_lost_changes_are_noticed_and_copied_again(shop: Shop, loss: str) -> None:
    """Only what differs is changed, so stream tables go on differentially."""
    mirrored(shop)
    shop.run(*loss.split("; "), "DELETE FROM orders WHERE id = 3")
    report = shop.tr.sync("shop")
    assert list(report.resynced) == ["main.orders"]
    exact(shop)
    shop.run("INSERT INTO orders VALUES (777, 'after', 1)")
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 0)}
    exact(shop)


def test_functions_of_an_older_version_are_replaced(shop: Shop) -> None:
    mirrored(shop)
    ((oid,),) = shop.world.rows("SELECT 'orders'::regclass::oid")
    shop.run(
        f"CREATE OR REPLACE FUNCTION trickle_changes.capture_{oid}_truncate() RETURNS trigger "
        "LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "UPDATE trickle_changes.captures SET description = description - 'edition'",
    )
    assert shop.tr.sync("shop").resynced == {}
    shop.run("TRUNCATE orders", "INSERT INTO orders VALUES (1, 'c1', 1)")
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 100)}
    exact(shop)


def test_lost_changes_wait_for_a_word_if_asked_to(shop: Shop) -> None:
    mirrored(shop, resync="manual")
    before = shop.here("SELECT * FROM orders")
    shop.run(*LOSSES[0].split("; "))
    report = shop.tr.sync("shop")
    assert "triggers" in report.problems["main.orders"]
    assert shop.status("main.orders")[0] == "RESYNC_NEEDED"
    assert shop.here("SELECT * FROM orders") == before  # the last exact state
    assert shop.tr.sync("shop").problems == report.problems
    done = shop.tr.sql("RESYNC TABLE orders").collect()[0]
    assert (done.rows_inserted, done.rows_deleted) == (8, 8)
    assert shop.status("main.orders") == ("ACTIVE", "")
    exact(shop)


@pytest.mark.parametrize("mode", ["wal", "auto"])
def test_a_slot_that_is_gone(shop: Shop, mode: str) -> None:
    mirrored(shop, mode)
    shop.tr.sync("shop")
    status = shop.tr.answer("wal_source_status").dicts()[0]
    assert status["capture"] == "WAL"
    shop.run(
        "UPDATE orders SET amount = 5 WHERE id = 1", f"SELECT pg_drop_replication_slot('{status['slot']}')"
    )
    shop.run("UPDATE orders SET amount = 6 WHERE id = 2")
    report = shop.tr.sync("shop")
    assert "slot" in report.resynced["main.orders"]
    exact(shop)
    assert report.capture == ("WAL" if mode == "wal" else "TRIGGER")  # auto falls back, and says why
    assert mode == "wal" or "slot" in shop.tr.answer("wal_source_status").dicts()[0]["transitions"]
    shop.run("DELETE FROM orders WHERE id < 5")
    shop.tr.sync("shop")
    exact(shop)


def test_more_than_a_poll_was_committed_and_not_confirmed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the commit here and the confirmation there a process may die; a server forgets it in a crash."""
    mirrored(shop, "wal")
    shop.tr.sync("shop")
    shop.tr.sql("SET trickle.wal_max_changes_per_poll = 20")
    with monkeypatch.context() as patched:
        patched.setattr(by_log, "advance_slot", lambda *_: None)
        shop.run("UPDATE orders SET amount = amount + 1")
        shop.tr.sync("shop")
    shop.run("INSERT INTO orders VALUES (777, 'after', 1)")
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 0)}
    exact(shop)


def test_polls_that_cancel_out_are_passed_over(shop: Shop) -> None:
    """Two transactions fill a poll, and nothing is left of them: what follows is seen all the same."""
    mirrored(shop, "wal")
    shop.tr.sync("shop")
    for setting in ("wal_max_changes_per_poll = 6", "wal_max_lag_bytes = 1000000000"):
        shop.tr.sql(f"SET trickle.{setting}")
    shop.run(
        "INSERT INTO orders VALUES (555, 'new', 1)",
        "DELETE FROM orders WHERE id = 555",
        "INSERT INTO orders VALUES (777, 'after', 1)",
    )
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 0)}
    exact(shop)


def test_auto_waits_for_what_stands_in_the_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transition, "_TRIES", Backoff(0.3, 300.0))
    shop.run(*ORDERS, "CREATE TABLE bag (a int)")
    shop.attach("auto")
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.create_mirror("bag", "shop.public.bag")
    assert shop.tr.sync("shop").capture == "TRIGGER"
    assert "bag" in shop.tr.answer("wal_source_status").dicts()[0]["blocked_reason"]
    shop.run("ALTER TABLE bag REPLICA IDENTITY FULL")
    writer = shop.world.application()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO orders VALUES (600, 'open', 1)")
    assert shop.tr.sync("shop").capture == "TRIGGER"  # the slot would wait for this transaction
    writer.execute("COMMIT")
    history = shop.tr.answer("wal_source_status").dicts()[0]["transitions"]
    assert "TRANSITIONING" in history
    while shop.tr.sync("shop").capture != "WAL":
        pass
    shop.check("SELECT * FROM orders")
    shop.run("INSERT INTO orders VALUES (601, 'log', 1)", "INSERT INTO bag VALUES (1), (1), (NULL)")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM orders")
    shop.check("SELECT * FROM bag")
    assert not shop.world.rows("SELECT FROM pg_trigger")


@pytest.mark.parametrize("mode", ["trigger", "wal"])
@pytest.mark.parametrize("unlogged", ["true", "false"])
def test_a_server_that_crashes(shop: Shop, mode: str, unlogged: str) -> None:
    mirrored(shop, mode, unlogged=unlogged)
    shop.run("UPDATE orders SET amount = 7 WHERE id < 30")
    shop.world.server.stop("immediate")
    shop.world.server.start()
    shop.world.__dict__.pop("usual", None)
    shop.run("UPDATE orders SET amount = 8 WHERE id = 50")
    report = shop.tr.sync("shop")
    assert bool(report.resynced) == (mode == "trigger" and unlogged == "true")
    exact(shop)


CUT = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'spark-trickle%'"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["trigger", "wal", "auto"])
@pytest.mark.shows("postgres", "an outage in the middle")
def test_a_connection_that_is_cut(shop: Shop, mode: str) -> None:
    """Whatever is done next goes on with a new one, once; a server that is away is an error as ever."""
    mirrored(shop, mode)
    shop.tr.create_stream_table("totals", "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    shop.tr.publish("totals", "shop", "public.totals")
    shop.run("DELETE FROM orders WHERE id < 10", CUT)
    assert shop.tr.sync("shop").rows_deleted == 9
    exact(shop)
    shop.run(CUT)
    shop.tr.refresh("totals")
    shop.tr.push()
    assert shop.there("SELECT * FROM totals") == shop.here("SELECT * FROM totals")
    shop.run(CUT)
    shop.tr.resync("orders")
    shop.world.server.stop()
    with pytest.raises(SourceUnavailableError):
        shop.tr.sync("shop")
    shop.world.server.start()
    shop.world.__dict__.pop("usual", None)
    shop.run("DELETE FROM orders WHERE id < 20")
    assert shop.tr.sync("shop").rows_deleted == 10
    exact(shop)


@pytest.mark.parametrize("mode", ["trigger", "wal"])
@pytest.mark.shows("postgres", "new columns", "renamed and dropped columns", "widened types")
def test_columns_that_change(shop: Shop, mode: str) -> None:
    mirrored(shop, mode)
    shop.run("ALTER TABLE orders ADD COLUMN note text", "INSERT INTO orders VALUES (500, 'c1', 1, 'n')")
    assert shop.tr.sync("shop").problems == {}
    assert shop.tr.answer("source_status").dicts()[0]["new_columns"] == "note"
    assert shop.tr.table("orders").columns == ["id", "customer", "amount"]
    shop.run(
        "ALTER TABLE orders RENAME COLUMN customer TO buyer", "UPDATE orders SET amount = 3 WHERE id = 4"
    )
    assert "buyer" in shop.tr.sync("shop").problems["main.orders"]
    assert shop.status("main.orders")[0] == "SCHEMA_CHANGED"
    shop.tr.resync("orders")
    shop.check("SELECT * FROM orders")
    shop.tr.refresh("by_customer")  # the renamed column is followed
    shop.check("SELECT buyer, sum(amount) FROM orders GROUP BY buyer", "by_customer")
    shop.run("ALTER TABLE orders ALTER amount TYPE numeric(20, 4)")
    assert "amount" in shop.tr.sync("shop").problems["main.orders"]
    shop.tr.resync("orders")
    shop.check("SELECT * FROM orders")
    shop.run("ALTER TABLE orders DROP COLUMN buyer", "DELETE FROM orders WHERE id = 9")
    assert "dropped" in shop.tr.sync("shop").problems["main.orders"]
    shop.tr.resync("orders")
    shop.check("SELECT * FROM orders")
    with pytest.raises(SourceLostError):
        shop.tr.refresh("by_customer")


# What happens to a table while its changes wait in the log -> whether a new copy mends it, and why it stops.
STOPS_ONE = [
    (["DELETE FROM orders WHERE id = 1", "ALTER TABLE orders REPLICA IDENTITY FULL", "DELETE FROM orders WHERE id = 2"], True, "its replica identity"),
    (["ALTER TABLE orders REPLICA IDENTITY NOTHING", "INSERT INTO orders VALUES (500, 'new', 1)"], False, "nothing now identifies"),
    (["ALTER TABLE orders ADD code int NOT NULL DEFAULT 1", "ALTER TABLE orders DROP CONSTRAINT orders_pkey", "ALTER TABLE orders ADD PRIMARY KEY (id, code)"], False, "key"),
    (["CREATE UNIQUE INDEX by_number ON orders (number)", "ALTER TABLE orders REPLICA IDENTITY USING INDEX by_number", "INSERT INTO orders VALUES (500, 'new', 1, -1)"], False, '"number", which is not captured'),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "mended", "reason"), STOPS_ONE)
def test_a_table_that_the_log_cannot_follow_stops_alone(
    shop: Shop, statements: list[str], mended: bool, reason: str
) -> None:
    shop.run(
        *ORDERS,
        "ALTER TABLE orders ADD number int NOT NULL GENERATED BY DEFAULT AS IDENTITY",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE third (id int PRIMARY KEY)",
    )
    shop.attach("wal")
    shop.tr.sql("CREATE TABLE orders FROM SOURCE shop.public.orders (customer, amount)")
    shop.tr.create_mirror("other", "shop.public.other")
    shop.tr.create_mirror("third", "shop.public.third")
    shop.run("INSERT INTO other VALUES (1)", *statements, "INSERT INTO other VALUES (2)")
    report = shop.tr.sync("shop")
    assert reason in (report.resynced if mended else report.problems)["main.orders"]
    shop.check("SELECT * FROM other")
    shop.tr.sql("DROP TABLE third")
    shop.run("INSERT INTO other VALUES (3)", "ALTER TABLE other REPLICA IDENTITY FULL")
    assert list(shop.tr.sync("shop").resynced) == ["main.other"]
    shop.check("SELECT * FROM other")
    if mended:
        shop.check("SELECT id, customer, amount FROM orders", "orders")


def test_a_mirror_that_was_damaged_stops_alone(shop: Shop) -> None:
    """What the log says is gone is not there: only this table is copied again."""
    mirrored(shop, "wal")
    shop.run("CREATE TABLE other (id int PRIMARY KEY)")
    shop.tr.create_mirror("other", "shop.public.other")
    work = begin_work(shop.tr._connection.place)
    truncate_table(work, work.catalog.table(("main", "orders"), "main"))
    work.commit("damage")
    shop.run("DELETE FROM orders WHERE id = 1", "INSERT INTO other VALUES (1)")
    report = shop.tr.sync("shop")
    assert report.tables["main.other"] == (1, 0)
    assert list(report.resynced) == ["main.orders"]
    exact(shop)


def test_a_log_that_has_to_wait_for_a_writer(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "_PATIENCE", 0.3)
    shop.run(*ORDERS)
    writer = shop.world.application()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO orders VALUES (800, 'open', 1)")
    shop.attach("wal")
    with pytest.raises(SourceBusyError, match="too long"):
        shop.tr.create_mirror("orders", "shop.public.orders")
    writer.execute("COMMIT")
    assert shop.tr.sync("shop").copied == ("main.orders",)
    shop.check("SELECT * FROM orders")


MIRROR_LATE = "CREATE TABLE late FROM SOURCE shop.public.late"
HIDE_AND_SHOW = ["ALTER PUBLICATION {name} DROP TABLE late", "ALTER PUBLICATION {name} ADD TABLE late"]

# What was done here, what happens there while a transaction writes to a table, and what brings it into the log.
LATE: list[tuple[list[str], list[str], str]] = [
    ([], [], MIRROR_LATE),
    ([MIRROR_LATE], HIDE_AND_SHOW, "SYNC SOURCE shop"),
]


@pytest.mark.parametrize(("before", "meanwhile", "statement"), LATE)
def test_a_table_that_joins_the_log_has_to_wait_for_a_writer(
    shop: Shop, before: list[str], meanwhile: list[str], statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "LOCK_SECONDS", 0.3)
    mirrored(shop, "wal")
    shop.run("CREATE TABLE late (id int PRIMARY KEY)")
    for first in before:
        shop.tr.sql(first)
    writer = shop.world.application()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO late VALUES (1)")
    name = shop.tr.answer("wal_source_status").dicts()[0]["publication"]
    shop.run(*(s.format(name=name) for s in meanwhile))
    with pytest.raises(SourceBusyError, match=r'write to "public\.late"'):
        shop.tr.sql(statement)
    writer.execute("COMMIT")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM late")
    shop.run("INSERT INTO late VALUES (2)")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM late")
    exact(shop)


def test_a_key_that_is_gone(shop: Shop) -> None:
    """What rows were told apart by cannot be relied on any more, neither here nor in stream tables."""
    mirrored(shop)
    shop.tr.create_stream_table("copy", "SELECT id, amount FROM orders")
    shop.run(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
        "INSERT INTO orders VALUES (7, 'twin', 1), (7, 'twin', 1)",
    )
    assert "key" in shop.tr.sync("shop").problems["main.orders"]
    shop.tr.resync("orders")
    shop.check("SELECT * FROM orders")
    assert shop.tr.refresh("copy").action == "REINITIALIZE"
    shop.run("DELETE FROM orders WHERE ctid = (SELECT min(ctid) FROM orders WHERE customer = 'twin')")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM orders")
    shop.tr.refresh("copy")
    shop.check("SELECT id, amount FROM orders", "copy")


@pytest.mark.shows("postgres", "a table that was made again is noticed")
def test_a_table_that_is_gone(shop: Shop) -> None:
    mirrored(shop)
    shop.run("DROP TABLE orders")
    assert "dropped" in shop.tr.sync("shop").problems["main.orders"]
    assert shop.tr.table("orders").count() == 100  # the last exact state
    with pytest.raises(SourceSchemaChangedError):
        shop.tr.resync("orders")
    shop.tr.sql("DROP STREAM TABLE by_customer")
    shop.tr.sql("DROP TABLE orders")
    assert shop.tr.sync("shop").problems == {}


def test_a_mirror_dropped_while_the_source_is_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored(shop)
    shop.tr.sql("DROP STREAM TABLE by_customer")
    monkeypatch.setenv("SHOP_DSN", "host=/nowhere dbname=x")
    with spark_trickle.connect(shop.place) as other, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        other.sql("DROP TABLE orders")
    assert any("next SYNC SOURCE" in str(w.message) for w in told)
    assert shop.world.rows("SELECT FROM pg_trigger")
    shop.tr.sync("shop")
    assert not shop.world.rows("SELECT FROM pg_trigger")


def test_a_server_that_does_not_let_us(shop: Shop) -> None:
    shop.run(
        *ORDERS,
        "CREATE ROLE weak LOGIN",
        "GRANT USAGE ON SCHEMA public TO weak",
        "GRANT SELECT ON orders TO weak",
    )
    try:
        conninfo = shop.world.server.conninfo(shop.world.database, "weak")
        shop.tr.attach_source("weak", dsn=conninfo, cdc_mode="trigger")
        with pytest.raises(SourceSetupError):
            shop.tr.create_mirror("orders", "weak.public.orders")
        assert not shop.tr.sql("SHOW TABLES").collect()
        with pytest.raises(SourceSetupError, match="replication"):
            shop.tr.attach_source("weaker", dsn=conninfo, cdc_mode="wal")
    finally:
        shop.run("DROP OWNED BY weak", "DROP ROLE weak")


def test_the_health_of_sources(shop: Shop) -> None:
    mirrored(shop)
    triggers = shop.tr.answer("trigger_inventory").dicts()
    assert len(triggers) == 4
    assert all(t["ok"] for t in triggers)
    assert all(row["ok"] for row in shop.tr.answer("check_cdc_health").dicts())
    shop.run("ALTER TABLE orders DISABLE TRIGGER USER")
    wrong = [row for row in shop.tr.answer("check_cdc_health").dicts() if not row["ok"]]
    assert wrong
    assert all(row["fix"] for row in wrong)
    assert shop.tr.sql("SELECT * FROM trickle.slot_health()").collect() == []
    shop.run("UPDATE orders SET amount = 0")
    assert shop.tr.sql("SELECT pending_rows FROM trickle.source_status()").collect()[0][0] is not None
