"""Sources whose mirrored tables rest while others are written to: the log goes on, and nothing piles up there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sources.conftest import DSN, Shop

ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount int)",
    "INSERT INTO orders SELECT g, 'c' || g % 5, g FROM generate_series(1, 100) g",
    "CREATE TABLE other (a text)",
]
TWO_MEGABYTES = "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2000)"
SLOT = "SELECT confirmed_flush_lsn - '0/0', pg_current_wal_insert_lsn() - confirmed_flush_lsn FROM pg_replication_slots"


def mirrored(shop: Shop, mode: str, owner: str = "postgres", **options: str) -> None:
    shop.run(*ORDERS, f"ALTER TABLE orders OWNER TO {owner}")
    shop.attach(mode, **options)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.sync("shop")
    assert log_status(shop)["capture"] == "WAL"


def log_status(shop: Shop) -> dict[str, Any]:
    (found,) = shop.tr.answer("wal_source_status").dicts()
    return found


def lag_finding(shop: Shop, function: str) -> dict[str, Any]:
    (found,) = [f for f in shop.tr.answer(function).dicts() if f["check"] == "lag"]
    return found


HEARTBEATS = (
    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('spy', NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'spy', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')"
)
WRITE_HEARTBEATS = "EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text{})"
FLUSH = "INSERT INTO other VALUES ('the end')"  # an ordinary commit brings all of the log to disk


@pytest.fixture
def without_heartbeats(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our role may read the log and owns its tables, but may not write messages into the log."""
    newer = shop.world.usual.info.server_version >= 170_000
    right = WRITE_HEARTBEATS.format(", boolean" if newer else "")
    shop.run(
        "CREATE ROLE reader LOGIN REPLICATION",
        "GRANT CREATE ON DATABASE postgres TO reader",
        "GRANT ALL ON SCHEMA public TO reader",
        f"REVOKE {right} FROM public",
        f"REVOKE {right.replace('text, text', 'text, bytea')} FROM public",
    )
    monkeypatch.setenv(DSN, shop.world.server.conninfo(shop.world.database, "reader"))
    yield
    shop.run(
        f"GRANT {right} TO public",
        f"GRANT {right.replace('text, text', 'text, bytea')} TO public",
        "REASSIGN OWNED BY reader TO postgres",
        "DROP OWNED BY reader",
        "DROP ROLE reader",
    )


def write_and_sync(shop: Shop) -> None:
    """Two megabytes into another table and a sync, six times: the slot is never far behind."""
    positions = []
    for _ in range(6):
        shop.run(TWO_MEGABYTES, FLUSH)
        assert shop.world.rows(SLOT)[0][1] > 2_000_000
        report = shop.tr.sync("shop")
        assert (report.rows_inserted, report.resynced, report.problems) == (0, {}, {})
        confirmed, lag = shop.world.rows(SLOT)[0]
        positions.append(confirmed)
        assert lag < 65_536
    assert positions == sorted(set(positions))
    shop.run("UPDATE orders SET amount = 0 WHERE id = 7")
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 1)}
    shop.check("SELECT * FROM orders")


@pytest.mark.parametrize("mode", ["wal", "auto"])
def test_the_slot_follows_while_mirrored_tables_rest(shop: Shop, mode: str) -> None:
    mirrored(shop, mode)
    shop.run("CREATE PUBLICATION spy", "SELECT pg_create_logical_replication_slot('spy', 'pgoutput')")
    shop.tr.sync("shop")
    assert shop.world.rows(HEARTBEATS) == [(0,)]  # none for so little
    shop.run(TWO_MEGABYTES)
    shop.tr.sync("shop")
    assert shop.world.rows(HEARTBEATS) == [(1,)]
    shop.run("SELECT pg_drop_replication_slot('spy')")
    write_and_sync(shop)


def test_the_slot_follows_without_the_right_to_write_heartbeats(shop: Shop, without_heartbeats: None) -> None:
    mirrored(shop, "wal", owner="reader")
    write_and_sync(shop)


def test_how_far_the_slot_may_be_behind_is_a_setting(shop: Shop) -> None:
    mirrored(shop, "wal")
    shop.tr.sql("SET trickle.wal_max_lag_bytes = 10000000")
    before = shop.world.rows(SLOT)[0][0]
    for _ in range(2):
        shop.run(TWO_MEGABYTES)
        shop.tr.sync("shop")
        assert shop.world.rows(SLOT)[0][0] == before
    shop.tr.sql("SET trickle.wal_max_lag_bytes = 3000000")
    shop.tr.sync("shop")
    assert shop.world.rows(SLOT)[0][1] < 65_536


@pytest.mark.parametrize("function", ["check_cdc_health", "slot_health"])
def test_log_that_piles_up_is_told(shop: Shop, function: str) -> None:
    mirrored(shop, "wal")
    shop.run(TWO_MEGABYTES)
    assert lag_finding(shop, function)["ok"]
    shop.tr.sql("SET trickle.wal_alert_lag_bytes = 1000000")
    found = lag_finding(shop, function)
    assert (found["ok"], found["fix"].startswith("Sync the source")) == (False, True)


def test_the_lag_in_seconds_counts_from_what_was_read(shop: Shop) -> None:
    """By the clock of the source, and not at all while nothing happens there."""
    mirrored(shop, "wal")
    shop.tr.sync("shop")
    shop.run("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    shop.tr.sync("shop")
    assert log_status(shop)["lag_seconds"] == 0
    shop.run("UPDATE orders SET amount = amount + 1 WHERE id = 2")
    first = log_status(shop)["lag_seconds"]
    second = log_status(shop)["lag_seconds"]
    assert 0 < first < second
    shop.tr.sync("shop")
    assert log_status(shop)["lag_seconds"] == 0


def test_a_slot_that_no_mirror_follows_is_dropped(shop: Shop) -> None:
    """It would keep the log for a copy that has to be made anew in any case."""
    mirrored(shop, "wal", resync="manual")
    shop.run("ALTER TABLE orders ALTER amount TYPE int USING amount + 1", TWO_MEGABYTES)
    shop.tr.sync("shop")
    assert shop.status("main.orders")[0] == "RESYNC_NEEDED"
    assert shop.world.rows(SLOT)
    shop.tr.sync("shop")
    assert not shop.world.rows(SLOT)
    shop.run("DELETE FROM orders WHERE id = 1")
    shop.tr.sql("RESYNC TABLE orders")
    shop.run("DELETE FROM orders WHERE id = 2")
    assert shop.tr.sync("shop").tables == {"main.orders": (0, 1)}
    shop.check("SELECT * FROM orders")


def test_a_new_mirror_makes_the_slot_again(shop: Shop) -> None:
    mirrored(shop, "wal")
    shop.tr.sql("DROP TABLE orders")
    shop.run(TWO_MEGABYTES)
    shop.tr.sync("shop")
    assert not shop.world.rows(SLOT)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.run("DELETE FROM orders WHERE id = 2")
    assert shop.tr.sync("shop").tables == {"main.orders": (0, 1)}
    shop.check("SELECT * FROM orders")
