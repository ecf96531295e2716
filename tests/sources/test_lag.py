"""How long a change takes to be seen, counted from its commit in the source."""

from __future__ import annotations

from datetime import datetime

import pytest

from spark_trickle.scheduler.survey import survey_world
from tests.sources.conftest import Shop

CLOCK = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00:00')"


def clock(shop: Shop) -> datetime:
    return datetime.fromisoformat(shop.world.rows(CLOCK)[0][0])


def changed_since(shop: Shop) -> datetime:
    (found,) = survey_world(shop.tr._connection.place).standings.values()
    assert found.changed_since is not None
    return found.changed_since


@pytest.mark.parametrize("mode", ["trigger", "wal", "auto"])
def test_it_begins_when_the_source_commits(shop: Shop, mode: str) -> None:
    """From the log exactly; a buffer does not tell, so it counts from the moment at which it is read."""
    shop.run("CREATE TABLE orders (id int PRIMARY KEY, amount int)", "INSERT INTO orders VALUES (1, 1)")
    shop.attach(mode)
    shop.tr.create_mirror("orders", "shop.public.orders")
    shop.tr.create_stream_table("total", "SELECT sum(amount) AS s FROM orders")
    shop.tr.sync("shop")
    shop.tr.refresh("total")
    before = clock(shop)
    shop.run("UPDATE orders SET amount = 2", "UPDATE orders SET amount = 3")
    after = clock(shop)
    shop.tr.sync("shop")
    if mode == "trigger":
        assert before <= changed_since(shop)
    else:
        assert before <= changed_since(shop) <= after
    (landed,) = shop.tr.sql("SELECT max(snapshot_time) AS t FROM trickle.snapshots()").collect()
    assert changed_since(shop) < landed.t.astimezone()
