"""Copies of a warehouse: restored, moved or cloned, each is exact, is copied again, or is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle.errors import NotPublishedError, WarehouseCopiedError
from tests.sources.conftest import Shop

MODES = ["trigger", "wal", "auto"]
TOTALS = "SELECT item, sum(n) AS n FROM sales GROUP BY item"


@pytest.fixture(params=MODES)
def busy(shop: Shop, request: pytest.FixtureRequest) -> Shop:
    """A mirror, a stream table over it, and the table that it is published as."""
    shop.run("CREATE TABLE sales (id int PRIMARY KEY, item text, n int)")
    shop.run("INSERT INTO sales SELECT g, 'i' || g % 7, g FROM generate_series(1, 30) g")
    shop.attach(request.param)
    shop.tr.create_mirror("sales", "shop.public.sales")
    shop.tr.create_stream_table("totals", TOTALS)
    shop.tr.publish("totals", "shop", "public.totals_live")
    shop.tr.sync("shop")
    return shop


def copy_to(shop: Shop, place: Path) -> Path:
    """A copy of the folder while nobody uses it."""
    shop.tr.close()
    shutil.copytree(shop.place, place)
    return place


@contextmanager
def opened(shop: Shop, place: Path) -> Iterator[Shop]:
    with spark_trickle.connect(place) as tr:
        yield replace(shop, tr=tr, place=place)


def change(shop: Shop, number: int) -> None:
    shop.run(
        f"UPDATE sales SET n = n + {number} WHERE id % 5 = {number % 5}",
        f"INSERT INTO sales VALUES ({number}, 'new', {number})",
        f"DELETE FROM sales WHERE id = {number % 29 + 1}",
    )


def exact(shop: Shop, published: bool = True) -> None:
    """What is synchronised, refreshed and pushed is what the source holds."""
    shop.tr.sync("shop")
    shop.tr.refresh("totals")
    assert shop.status("main.sales")[0] == "ACTIVE"
    shop.check("SELECT * FROM sales")
    if published:
        assert shop.there("SELECT * FROM totals_live") == shop.there(TOTALS)


@pytest.mark.one_in(3)
def test_an_older_copy_is_restored(busy: Shop, tmp_path: Path) -> None:
    older = copy_to(busy, tmp_path / "older")
    with opened(busy, busy.place) as shop:
        for number in (101, 102):
            change(shop, number)
            exact(shop)
        shop.run("CREATE TABLE later (id int PRIMARY KEY)")
        shop.tr.create_mirror("later", "shop.public.later")
    shutil.rmtree(busy.place)
    shutil.copytree(older, busy.place)
    with opened(busy, busy.place) as shop:
        assert "older copy" in shop.tr.sync("shop").resynced["main.sales"]
        exact(shop)
        for number in (103, 104):
            change(shop, number)
            assert not shop.tr.sync("shop").resynced
            exact(shop)
        shop.tr.sql("UNPUBLISH STREAM TABLE totals")
        shop.tr.sql("DETACH SOURCE shop")
    assert not busy.world.rows("SELECT FROM pg_namespace WHERE nspname = 'trickle_changes'")
    assert not busy.world.rows("SELECT FROM pg_replication_slots WHERE slot_name LIKE 'trickle%'")


def test_two_copies_synchronise_in_turn(busy: Shop, tmp_path: Path) -> None:
    copy = copy_to(busy, tmp_path / "copy")
    for number in (101, 102):
        change(busy, number)
        with opened(busy, copy) as other:
            for write in (other.tr.sync, other.tr.push):
                with pytest.raises(WarehouseCopiedError, match="TAKE OVER"):
                    write("shop")
            with pytest.raises(WarehouseCopiedError):
                other.tr.sql("UNPUBLISH STREAM TABLE totals")
            with pytest.raises(WarehouseCopiedError):
                other.tr.sql("RESYNC TABLE sales")
        with opened(busy, busy.place) as shop:
            exact(shop)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("busy", ["trigger", "auto"], indirect=True)
def test_a_copy_takes_over(busy: Shop, tmp_path: Path) -> None:
    copy = copy_to(busy, tmp_path / "copy")
    change(busy, 101)
    with opened(busy, busy.place) as shop:
        exact(shop)
    change(busy, 102)
    with opened(busy, copy) as other:
        other.tr.sql("SYNC SOURCE shop TAKE OVER")
        exact(other)
        change(busy, 103)
        exact(other)
    with opened(busy, busy.place) as shop, pytest.raises(WarehouseCopiedError):
        shop.tr.sync("shop")
    with opened(busy, copy) as other:
        change(busy, 104)
        exact(other)


@pytest.mark.one_in(3)
def test_a_copy_with_an_identity_of_its_own(busy: Shop, tmp_path: Path) -> None:
    copy = copy_to(busy, tmp_path / "copy")
    with opened(busy, copy) as other:
        other.tr.sql("ALTER WAREHOUSE RENEW IDENTITY")
    with opened(busy, copy) as other, opened(busy, busy.place) as shop:
        with pytest.raises(NotPublishedError, match="another warehouse"):
            other.tr.push("shop")
        other.tr.sql("UNPUBLISH STREAM TABLE totals")
        for number in (101, 102, 103):
            change(busy, number)
            exact(other, published=False)
            exact(shop)
        other.tr.publish("totals", "shop", "public.totals_copy")
        change(busy, 104)
        exact(shop)
        exact(other, published=False)
        assert shop.there("SELECT * FROM totals_copy") == shop.there(TOTALS)
        other.tr.sql("UNPUBLISH STREAM TABLE totals")
        other.tr.sql("DETACH SOURCE shop")
        change(busy, 105)
        exact(shop)


@pytest.mark.parametrize("busy", ["trigger", "auto"], indirect=True)
def test_a_moved_folder_goes_on(busy: Shop, tmp_path: Path) -> None:
    busy.tr.close()
    for number in (101, 102):
        change(busy, number)
        place = tmp_path / f"moved_{number}"
        shutil.move(busy.place, place)
        busy.place = place
        with opened(busy, place) as shop:
            assert not shop.tr.sync("shop").resynced
            exact(shop)
