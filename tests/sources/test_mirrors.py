"""Tables of PostgreSQL and their mirrors: equal after every sync, however they are captured."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    ConflictError,
    InUseError,
    InvalidDefinitionError,
    ReadOnlyTableError,
    ReplicaIdentityError,
    SourceAddressError,
    SourceNotFoundError,
    SourceSetupError,
    SourceUnavailableError,
    TableNotFoundError,
    TypeNotAllowedError,
    UnsupportedError,
)
from spark_trickle.lake.catalog import sources
from spark_trickle.model.backoff import Backoff
from spark_trickle.model.source import Landed
from spark_trickle.sources import by_trigger, transition
from spark_trickle.sources.postgres.compact import compact_buffer
from spark_trickle.sources.postgres.copy import Progress
from tests.postgres.test_random import TABLES, TRUNCATING, Writer
from tests.sources.conftest import DSN, Shop

MODES = ["trigger", "wal", "auto"]

ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12, 2))",
    "INSERT INTO orders SELECT g, 'c' || g % 5, g * 1.25 FROM generate_series(1, 100) g",
]

# The same text in both systems.
STREAMS = {
    "by_text": "SELECT a, count(*) AS n, sum(id) AS s FROM t GROUP BY a",
    "joined": "SELECT t.id, k.b FROM t JOIN keyless k ON t.id = k.a",
    "lonely": "SELECT k FROM parts WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = parts.k)",
    "different": "SELECT DISTINCT b FROM keyless",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.shows("postgres", "inserted rows", "updated and deleted rows")
def test_random_transactions(shop: Shop, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several writers, transactions open across syncs, rollbacks and savepoints; in auto also the change over."""
    monkeypatch.setattr(transition, "_TRIES", Backoff(0.2, 300.0))
    r = random.Random(MODES.index(mode))
    shop.run(*TABLES)
    shop.attach(mode)
    for name in ("t", "keyless", "parts"):
        shop.tr.create_mirror(name, f"shop.public.{name}")
    for name, query in STREAMS.items():
        shop.tr.create_stream_table(name, query)
    writers = [Writer(shop.world) for _ in range(3)]
    for _ in range(6):
        for _ in range(20):
            r.choice(writers).step(r)
        if shop.world.rows(TRUNCATING):  # whoever holds the table must end before anybody can read it
            for writer in writers:
                writer.connection.execute("ROLLBACK")
                writer.depth = 0
        shop.tr.sync("shop")
        for name in ("t", "keyless", "parts"):
            shop.check(f"SELECT * FROM {name}")
        for name, query in STREAMS.items():
            assert shop.tr.refresh(name).action in ("DIFFERENTIAL", "NO_DATA", "FULL")
            shop.check(query, name)
    captured = shop.tr.answer("source_status").dicts()[0]["capture"]
    if mode != "auto":  # when that changes over depends on who writes
        assert captured == mode.upper()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.shows("postgres", "all tables in one snapshot")
def test_one_commit_for_one_reading(shop: Shop, mode: str) -> None:
    """A transaction over two tables is never seen by half."""
    shop.run(*ORDERS, "CREATE TABLE paid (id int PRIMARY KEY, amount numeric(12, 2))")
    shop.attach(mode)
    shop.tr.add_tables("shop", "public.*")
    before = shop.tr.snapshot
    with shop.world.usual.transaction():
        shop.run("INSERT INTO orders VALUES (1000, 'x', 7)", "INSERT INTO paid VALUES (1000, 7)")
    report = shop.tr.sync("shop")
    assert (report.rows_inserted, report.rows_deleted) == (2, 0)
    assert report.tables == {"main.orders": (1, 0), "main.paid": (1, 0)}
    assert shop.tr.snapshot == before + 1 == report.snapshot
    assert shop.tr.sync("shop").rows_inserted == 0
    assert shop.tr.snapshot == before + 1  # nothing to do is no snapshot


@pytest.mark.parametrize("mode", ["trigger", "wal"])
def test_a_transaction_that_commits_late(shop: Shop, mode: str) -> None:
    shop.run(*ORDERS)
    shop.attach(mode)
    shop.tr.create_mirror("orders", "shop.public.orders")
    late = shop.world.application()
    late.execute("BEGIN")
    late.execute("INSERT INTO orders VALUES (500, 'late', 1)")
    shop.run("INSERT INTO orders VALUES (501, 'early', 1)")
    shop.tr.sync("shop")
    assert shop.here("SELECT customer FROM orders WHERE id >= 500") == {("'early'",): 1}
    late.execute("COMMIT")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM orders")


def test_a_change_that_comes_and_goes_is_no_change(shop: Shop) -> None:
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.run(
        "INSERT INTO orders VALUES (900, 'x', 1)",
        "UPDATE orders SET amount = 2 WHERE id = 900",
        "DELETE FROM orders WHERE id = 900",
        "UPDATE orders SET amount = amount WHERE id < 10",
    )
    report = shop.tr.sync("shop")
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_a_long_buffer_is_shortened_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.tr.sql("SET trickle.compact_buffer_rows = 3")
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("orders", "shop.public.orders")
    shortened: list[int] = []
    monkeypatch.setattr(by_trigger, "compact_buffer", lambda *given: shortened.append(compact_buffer(*given)))
    shop.run("DELETE FROM orders WHERE id = 1")
    shop.tr.sync("shop")
    assert shortened == []  # one row is not long
    shop.run("INSERT INTO orders VALUES (900, 'x', 1)", "DELETE FROM orders WHERE id = 900")
    shop.run("UPDATE orders SET amount = 0 WHERE id = 2")
    report = shop.tr.sync("shop")
    assert shortened == [2]  # what came and went
    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    shop.check("SELECT * FROM orders")


def test_more_rows_than_the_driver_may_hold(shop: Shop) -> None:
    shop.tr.sql("SET trickle.max_driver_rows = 50")
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.run(
        "UPDATE orders SET amount = 1",
        "UPDATE orders SET amount = 2 WHERE id < 50",
        "DELETE FROM orders WHERE id > 90",
    )
    report = shop.tr.sync("shop")
    assert (report.rows_inserted, report.rows_deleted) == (90, 100)
    shop.check("SELECT * FROM orders")


def test_a_copy_in_pieces(shop: Shop) -> None:
    """Each piece is a commit; the table appears when it is whole."""
    shop.tr.sql("SET trickle.copy_piece_rows = 30")
    shop.run(*ORDERS)
    shop.attach()
    seen: list[int] = []
    shop.tr.create_mirror("orders", "shop.public.orders", progress=lambda p: seen.append(p.rows))
    assert seen == [30, 30, 30, 10]
    shop.check("SELECT * FROM orders")


def test_a_copy_that_was_cut_off_goes_on(shop: Shop) -> None:
    shop.tr.sql("SET trickle.copy_piece_rows = 30")
    shop.run(*ORDERS)
    shop.attach()
    pieces = 0

    def cut(_: Any) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.tr.create_mirror("orders", "shop.public.orders", progress=cut)
    with pytest.raises(TableNotFoundError):
        shop.tr.table("orders")
    shop.run("UPDATE orders SET amount = 0 WHERE id % 4 = 0", "DELETE FROM orders WHERE id % 7 = 0")
    seen: list[int] = []
    report = shop.tr.sync("shop", progress=lambda p: seen.append(p.rows))
    assert report.copied == ("main.orders",)
    assert len(seen) == 2  # two of the four pieces were there
    shop.check("SELECT * FROM orders")


def test_a_copy_goes_on_after_a_conflict(shop: Shop) -> None:
    """Others note something about the source meanwhile; whole pieces stay, and retries are no more than asked for."""
    shop.tr.sql("SET trickle.copy_piece_rows = 30")
    shop.run(*ORDERS)
    shop.attach()
    engine, seen = shop.tr._connection.place.warehouse.engine, list[int]()
    disturbed = {3, 5, 6, 7}  # pieces, in the order in which they are read

    def disturb(piece: Progress) -> None:
        seen.append(piece.rows)
        if len(seen) in disturbed:
            source = sources.find_source(engine, "shop")
            sources.move_on(engine, Landed(source, source.state))

    shop.tr.sql("SET trickle.commit_retries = 3")
    with pytest.raises(ConflictError):
        shop.tr.create_mirror("orders", "shop.public.orders", progress=disturb)
    assert seen == [30, 30, 30, 30, 10, 10, 10]
    shop.tr.create_mirror("orders", "shop.public.orders", progress=disturb)
    assert seen[7:] == [10]
    shop.check("SELECT * FROM orders")


def test_chosen_columns_and_more_of_them_later(shop: Shop) -> None:
    shop.run("CREATE TABLE wide (id int PRIMARY KEY, a text, b text, c jsonb, secret text)")
    shop.run("INSERT INTO wide SELECT g, 'a', 'b', '{}', 's' FROM generate_series(1, 5) g")
    shop.attach()
    shop.tr.sql("CREATE TABLE wide FROM SOURCE shop.public.wide (a)")
    assert shop.tr.table("wide").columns == ["id", "a"]
    shop.tr.create_stream_table("by_a", "SELECT a, count(*) AS n FROM wide GROUP BY a")
    buffer = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'trickle_changes' AND table_name LIKE 'changes%'"
    assert not {("'b'",), ("'secret'",)} & set(shop.there(buffer))
    shop.run("UPDATE wide SET secret = 'z'")  # not captured, so nothing to tell
    assert shop.tr.sync("shop").tables == {}
    shop.tr.sql("ALTER TABLE wide ADD COLUMNS FROM SOURCE (c)")
    shop.check("SELECT id, a, c::text FROM wide", "wide")
    shop.run("UPDATE wide SET c = '[1]' WHERE id = 2", "INSERT INTO wide VALUES (9, 'n', 'n', '5', 'n')")
    shop.tr.sync("shop")
    shop.check("SELECT id, a, c::text FROM wide", "wide")
    shop.tr.refresh("by_a")
    shop.check("SELECT a, count(*) FROM wide GROUP BY a", "by_a")
    with pytest.raises(ColumnNotFoundError):
        shop.tr.sql("ALTER TABLE wide ADD COLUMNS FROM SOURCE (nothing)")
    # A stream table that needs one more column has it captured.
    shop.tr.create_stream_table("by_b", "SELECT w.b, count(*) AS n FROM wide AS w GROUP BY w.b")
    assert shop.tr.table("wide").columns == ["id", "a", "b", "c"]
    shop.run("UPDATE wide SET b = 'q' WHERE id = 3")
    shop.tr.sync("shop")
    shop.tr.refresh("by_b")
    shop.check("SELECT b, count(*) FROM wide GROUP BY b", "by_b")


@pytest.mark.shows("postgres", "what cannot be read exactly is refused by name")
def test_columns_that_cannot_be_mapped(shop: Shop) -> None:
    shop.run("CREATE TYPE pair AS (x int, y int)", "CREATE TABLE odd (id int PRIMARY KEY, p pair)")
    shop.run("INSERT INTO odd VALUES (1, '(1,2)')")
    shop.attach()
    with pytest.raises(TypeNotAllowedError, match='"p"'):
        shop.tr.create_mirror("odd", "shop.public.odd")
    assert shop.tr.sql("CREATE TABLE odd FROM SOURCE shop.public.odd WITH (as_text 'p')").collect()
    shop.run("UPDATE odd SET p = '(3,4)'")
    shop.tr.sync("shop")
    assert shop.here("SELECT p FROM odd") == {("'(3,4)'",): 1}
    shop.tr.sql("DROP TABLE odd")
    shop.tr.sync("shop")
    shop.tr.create_mirror("odd", "shop.public.odd", skip=["p"])
    assert shop.tr.table("odd").columns == ["id"]


def test_names_of_all_kinds(shop: Shop) -> None:
    shop.run(
        'CREATE SCHEMA "My Schema"',
        'CREATE TABLE "My Schema"."dot.ted ""q"" 😀" ("per%cent %s" int PRIMARY KEY, "back\\slash" text)',
    )
    shop.run('INSERT INTO "My Schema"."dot.ted ""q"" 😀" VALUES (1, $$it\'s$$)')
    shop.attach(tables='"My Schema".*')
    shop.tr.sql('CREATE TABLE odd FROM SOURCE shop.`My Schema`.`dot.ted "q" 😀`')
    shop.run('UPDATE "My Schema"."dot.ted ""q"" 😀" SET "back\\slash" = NULL')
    shop.tr.sync("shop")
    assert shop.here("SELECT * FROM odd") == {("1", "None"): 1}


def test_mirrors_are_read_only(shop: Shop) -> None:
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("orders", "shop.public.orders")
    for statement in (
        "INSERT INTO orders VALUES (1, 'x', 1)",
        "DELETE FROM orders",
        "UPDATE orders SET amount = 0",
        "TRUNCATE TABLE orders",
        "ALTER TABLE orders ADD COLUMN x INT",
    ):
        with pytest.raises(ReadOnlyTableError, match=r'mirror of "shop\.public\.orders"'):
            shop.tr.sql(statement)
    with pytest.raises(UnsupportedError, match="IMMEDIATE"):
        shop.tr.create_stream_table("i", "SELECT count(*) AS n FROM orders", refresh_mode="IMMEDIATE")
    shop.tr.create_stream_table("n", "SELECT count(*) AS n FROM orders")
    with pytest.raises(UnsupportedError, match="IMMEDIATE"):
        shop.tr.sql("ALTER STREAM TABLE n SET REFRESH MODE IMMEDIATE")
    with pytest.raises(InUseError):
        shop.tr.sql("DROP TABLE orders")


def test_dropping_a_mirror_takes_the_triggers_along(shop: Shop) -> None:
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.sql("ALTER TABLE orders RENAME TO orders_here")
    shop.run("DELETE FROM orders WHERE id = 1")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM orders", "orders_here")
    shop.tr.sql("DROP TABLE orders_here")
    assert not shop.world.rows("SELECT tgname FROM pg_trigger")
    assert shop.tr.sync("shop").tables == {}


@pytest.mark.parametrize("mode", MODES)
def test_detach_leaves_nothing_behind(shop: Shop, mode: str) -> None:
    shop.run(*ORDERS)
    shop.attach(mode)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.sync("shop")
    shop.tr.sql("DETACH SOURCE shop")
    assert not shop.world.rows("SELECT FROM pg_trigger")
    assert not shop.world.rows("SELECT FROM pg_replication_slots WHERE database = current_database()")
    assert not shop.world.rows("SELECT FROM pg_publication")
    assert not shop.world.rows("SELECT FROM pg_namespace WHERE nspname LIKE 'trickle%'")
    shop.tr.sql("INSERT INTO orders VALUES (5000, 'ours now', 1)")  # an ordinary table now
    with pytest.raises(SourceNotFoundError):
        shop.tr.sync("shop")
    shop.attach(mode)
    shop.tr.create_mirror("again", "shop.public.orders")
    shop.tr.sql("DETACH SOURCE shop CASCADE")
    with pytest.raises(TableNotFoundError):
        shop.tr.table("again")


@pytest.mark.shows("postgres", "two processes at once")
def test_a_buffer_has_one_reader(shop: Shop) -> None:
    """What one has read is deleted, so another would miss it; with a schema of its own it does not."""
    shop.run(*ORDERS)
    shop.attach()
    shop.tr.create_mirror("mine", "shop.public.orders")
    with spark_trickle.connect(shop.place.parent / "other") as elsewhere:
        for tr, name in ((shop.tr, "twin"), (elsewhere, "shop")):
            tr.attach_source(name, dsn=f"env:{DSN}", cdc_mode="trigger")
            with pytest.raises(SourceSetupError, match='captured for source "shop" of warehouse') as refused:
                tr.create_mirror("theirs", f"{name}.public.orders")
            assert "schema of its own" in refused.value.hint
            tr.sync(name)
            tr.detach_source(name)  # which leaves the triggers of others alone
            tr.attach_source(name, dsn=f"env:{DSN}", cdc_mode="trigger", schema=f"changes_{name}")
            tr.create_mirror("theirs", f"{name}.public.orders")
        shop.run("INSERT INTO orders VALUES (777, 'new', 1)")
        for tr, name in ((shop.tr, "shop"), (shop.tr, "twin"), (elsewhere, "shop")):
            assert tr.sync(name).rows_inserted == 1
    shop.tr.detach_source("shop")
    shop.tr.attach_source("next", dsn=f"env:{DSN}", cdc_mode="trigger")
    shop.tr.create_mirror("after", "next.public.orders")  # nothing is left that belongs to somebody


def test_what_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run(*ORDERS, "CREATE VIEW v AS SELECT 1 AS one")
    with pytest.raises(SourceAddressError):
        shop.tr.sql("ATTACH SOURCE shop TYPE postgres OPTIONS (tables 'public.*')")
    with pytest.raises(SourceAddressError) as error:
        shop.tr.sql("ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'host=h password=hunter2')")
    assert "hunter2" not in str(error.value)
    with pytest.raises(SourceAddressError, match="NO_SUCH"):
        shop.tr.sql("ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:NO_SUCH')")
    with pytest.raises(InvalidDefinitionError, match="cdc_mod"):
        shop.tr.sql("ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:SHOP_DSN', cdc_mod 'wal')")
    with pytest.raises(InvalidDefinitionError, match="sometimes"):
        shop.tr.sql("ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:SHOP_DSN', cdc_mode 'sometimes')")
    with pytest.raises(UnsupportedError, match="oracle"):
        shop.tr.sql("ATTACH SOURCE shop TYPE oracle OPTIONS (dsn 'env:SHOP_DSN')")
    shop.attach(tables="public.orders")
    with pytest.raises(AlreadyExistsError):
        shop.attach()
    shop.tr.sql("ATTACH SOURCE IF NOT EXISTS shop TYPE postgres OPTIONS (dsn 'env:SHOP_DSN')")
    with pytest.raises(SourceNotFoundError, match="shpo"):
        shop.tr.sql("SYNC SOURCE shpo")
    with pytest.raises(TableNotFoundError):
        shop.tr.create_mirror("x", "shop.public.nothing")
    with pytest.raises(InvalidDefinitionError, match="source"):
        shop.tr.create_mirror("x", "shop.orders")
    shop.run("CREATE TABLE other (id int)")
    with pytest.raises(InvalidDefinitionError, match="does not match"):
        shop.tr.create_mirror("x", "shop.public.other")
    shop.tr.create_mirror("orders", "shop.public.orders")
    with pytest.raises(AlreadyExistsError):
        shop.tr.create_mirror("twice", "shop.public.orders")
    with shop.tr.transaction(), pytest.raises(UnsupportedError, match="transaction"):
        shop.tr.sql("SYNC SOURCE shop")
    assert not shop.tr.sql("CREATE TABLE IF NOT EXISTS orders FROM SOURCE shop.public.orders").collect()[0][0]
    monkeypatch.setenv("SHOP_DSN", "host=/nowhere password=hunter2 dbname=x")
    with spark_trickle.connect(shop.place) as other:
        with pytest.raises(SourceUnavailableError) as unreachable:
            other.sync("shop")
        with pytest.raises(SourceUnavailableError):
            other.sql("DETACH SOURCE shop")
        other.sql("DETACH SOURCE shop FORCE")
    assert "hunter2" not in str(unreachable.value)
    assert not any(b"hunter2" in f.read_bytes() for f in Path(shop.place).rglob("*") if f.is_file())


def test_a_table_without_a_name_for_its_rows(shop: Shop) -> None:
    shop.run("CREATE TABLE bag (a int, b text)", "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, NULL)")
    shop.attach("wal")
    with pytest.raises(ReplicaIdentityError) as error:
        shop.tr.create_mirror("bag", "shop.public.bag")
    assert 'ALTER TABLE "public"."bag" REPLICA IDENTITY FULL' in error.value.hint
    shop.run("ALTER TABLE bag REPLICA IDENTITY FULL")
    shop.tr.create_mirror("bag", "shop.public.bag")
    shop.run("DELETE FROM bag WHERE ctid = (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)")
    shop.tr.sync("shop")
    shop.check("SELECT * FROM bag")
