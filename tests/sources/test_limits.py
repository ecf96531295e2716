"""Buffers that are full or long, copies that are large, and how many connections a question needs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest
from prometheus_client import generate_latest

import spark_trickle
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.model.table import WEIGHT
from spark_trickle.observe.metrics import Metrics
from spark_trickle.sources.landing import land_change, land_new
from spark_trickle.txn.work import begin_work
from tests.sources.conftest import Shop

ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount int)",
    "INSERT INTO orders SELECT g, 'c' || g % 5, g FROM generate_series(1, 100) g",
]
EVERY = "SELECT * FROM orders"
BUFFER = "SELECT format('ALTER TABLE trickle_changes.%I', relname) FROM pg_class WHERE relname ~ '^changes_[0-9]+$'"
FULL = "ADD CONSTRAINT no_space CHECK (false) NOT VALID"  # what a full disk does, and nothing else
WRITES = [
    "INSERT INTO orders VALUES (777, 'new', 1)",
    "UPDATE orders SET amount = amount + 1 WHERE id < 5",
    "UPDATE orders SET amount = amount + 1 WHERE id = 9",
    "DELETE FROM orders WHERE id = 3",
    "TRUNCATE orders",
]


def mirrored(shop: Shop, **options: str) -> None:
    shop.run(*ORDERS)
    shop.attach("trigger", **options)
    shop.tr.create_mirror("orders", "shop.public.orders")


def buffer(shop: Shop) -> str:
    ((alter,),) = shop.world.rows(BUFFER)
    return str(alter)


# --- a buffer that takes no more -----------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("capture", ["statement", "row"])
def test_the_application_goes_on_and_the_mirror_is_copied_again(shop: Shop, capture: str) -> None:
    """Also while the buffer is still full: every sync is exact."""
    mirrored(shop, capture=capture)
    shop.run(f"{buffer(shop)} {FULL}")
    for write in WRITES[:4]:
        shop.run(write)
        health = shop.tr.answer("check_cdc_health").dicts()
        (lost,) = [f for f in health if f["check"] == "losses"]
        assert "no_space" in lost["value"]
        assert (lost["ok"], bool(lost["fix"])) == (False, True)
        assert "no_space" in shop.tr.sync("shop").resynced["main.orders"]
        shop.check(EVERY)
    shop.run(f"{buffer(shop)} DROP CONSTRAINT no_space", "UPDATE orders SET amount = 0 WHERE id = 1")
    assert shop.tr.sync("shop").tables == {"main.orders": (1, 1)}
    shop.check(EVERY)


def test_a_full_buffer_waits_for_a_word_if_asked_to(shop: Shop) -> None:
    mirrored(shop, resync="manual")
    before = shop.here(EVERY)
    shop.run(f"{buffer(shop)} {FULL}", WRITES[1], f"{buffer(shop)} DROP CONSTRAINT no_space")
    shop.tr.sync("shop")
    status, reason = shop.status("main.orders")
    assert status == "RESYNC_NEEDED"
    assert "no_space" in reason
    assert shop.here(EVERY) == before
    shop.tr.sql("RESYNC TABLE orders")
    shop.check(EVERY)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("guarded", ["false", "true"])
@pytest.mark.parametrize("capture", ["statement", "row"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_cannot_be_captured_fails_whole(
    shop: Shop, write: str, capture: str, guarded: str
) -> None:
    """Without the guard, and with it where not even the loss can be noted; the error names our function."""
    mirrored(shop, capture=capture, guarded=guarded)
    shop.run(f"{buffer(shop)} {FULL}")
    if guarded == "true":
        shop.run(f"ALTER TABLE trickle_changes.losses {FULL}")
    before = shop.there(EVERY)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        shop.run(write)
    assert "trickle_changes.capture_" in (caught.value.diag.context or "")
    assert shop.there(EVERY) == before
    assert shop.tr.sync("shop").tables == {}
    shop.check(EVERY)


def test_a_long_buffer_is_told(shop: Shop) -> None:
    mirrored(shop)
    shop.tr.sql("SET trickle.buffer_alert_rows = 10")
    shop.run("UPDATE orders SET amount = 0 WHERE id <= 5")

    def told() -> list[tuple[str, bool]]:
        found = shop.tr.answer("check_cdc_health").dicts()
        return [(f["value"].split(" rows")[0], f["ok"]) for f in found if f["check"] == "buffer"]

    assert told() == [("10", True)]
    shop.run("DELETE FROM orders WHERE id = 50")
    assert told() == [("more than 10", False)]
    shop.tr.sync("shop")
    assert told() == [("0", True)]


def test_changes_that_nobody_reads_are_told_once(shop: Shop) -> None:
    """A mirror that waits for help leaves its changes where they are, and they grow in number."""
    mirrored(shop, resync="manual")
    shop.run(f"{buffer(shop)} {FULL}", WRITES[0], f"{buffer(shop)} DROP CONSTRAINT no_space")
    alerts: list[Alert] = []
    with spark_trickle.connect(
        shop.place, settings={"buffer_alert_rows": 50, "buffer_alert_cycles": 2}
    ) as tr:
        scheduler = tr.scheduler(on_alert=alerts.append)
        scheduler.tick()
        assert [a.event for a in alerts] == ["source_needs_help"]
        shop.run("UPDATE orders SET amount = 0")
        scheduler.tick()
        assert len(alerts) == 1  # once may be chance
        scheduler.tick()
        scheduler.tick()
        assert [(a.event, a.table_name) for a in alerts[1:]] == [
            ("change_buffer_backpressure", "main.orders")
        ]
        assert "more than 50" in alerts[-1].message
        tr.resync("orders")
        assert tr.sync("shop").waiting == {}
    shop.check(EVERY)


# --- memory --------------------------------------------------------------------------------------


def test_a_long_buffer_is_read_in_pieces_and_committed_at_once(shop: Shop) -> None:
    mirrored(shop)
    shop.tr.sql("SET trickle.max_driver_rows = 1000")
    shop.run(
        "INSERT INTO orders SELECT g, 'many', g FROM generate_series(1000, 250000) g",
        "UPDATE orders SET amount = amount + 1 WHERE id % 1000 = 0",
    )
    before = shop.tr.sql("SELECT * FROM trickle.snapshots()").count()
    report = shop.tr.sync("shop")
    assert report.rows_inserted == 249_001
    assert shop.tr.sql("SELECT * FROM trickle.snapshots()").count() <= before + 2  # one more if it is merged
    query = "SELECT count(*) AS n, sum(amount)::bigint AS a FROM orders"
    assert shop.here(query.replace("::bigint", "")) == shop.there(query)


class Pieces:
    """Pieces of a table one by one, and how many of them are kept by those who got them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.most = 0
        self.rows = 0

    def __iter__(self) -> Iterator[pa.Table]:
        known: list[weakref.ref[pa.Table]] = []
        for n in range(self.count):
            self.most = max(self.most, sum(ref() is not None for ref in known))
            piece = pa.table(
                {
                    "id": pa.array(range(n * 100, n * 100 + 100), pa.int32()),
                    "customer": pa.array(["x"] * 100),
                    "amount": pa.array([n] * 100, pa.int32()),
                    WEIGHT: pa.array([1] * 100, pa.int32()),
                }
            )
            known.append(weakref.ref(piece))
            self.rows += piece.num_rows
            yield piece
            del piece


def test_the_memory_of_a_copy_does_not_grow_with_its_rows(shop: Shop) -> None:
    """A million rows are many pieces, and never more than two of them are there: the last and the next."""
    shop.tr.sql("CREATE TABLE here (id INT, customer STRING, amount INT)")
    shop.tr.sql("SET trickle.max_driver_rows = 300")
    for write, kept in ((land_new, 1), (land_change, 6)):
        for count in (10, 40):
            work = begin_work(shop.tr._connection.place)
            pieces = Pieces(count)
            table = work.catalog.table(("here",), "main")
            assert write(work, table, pieces).inserted == pieces.rows == count * 100
            assert pieces.most <= kept
            work.discard()


# --- connections ---------------------------------------------------------------------------------


def test_metrics_ask_each_source_by_one_connection(shop: Shop) -> None:
    mirrored(shop)
    shop.run(
        "CREATE TABLE logins (name text)",
        "CREATE FUNCTION login() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO public.logins SELECT current_setting('application_name'); END $$",
        "CREATE EVENT TRIGGER login ON login EXECUTE FUNCTION login()",
    )
    generate_latest(Metrics(shop.tr.answer).registry)
    assert shop.world.rows("SELECT name FROM logins") == [("spark-trickle status",)]
