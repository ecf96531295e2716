"""How many statements a source is sent: as many for twenty mirrors as for one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.sources.conftest import Shop

SENT = re.compile(r"^spark-trickle (\w+)\|LOG:  (?:statement|execute [^:]*): (.*)$", re.MULTILINE)
MODES = ["trigger", "wal", "auto"]


@pytest.fixture
def logged(shop: Shop) -> Iterator[Shop]:
    """A database whose server writes down every statement."""
    shop.run("ALTER DATABASE postgres SET log_statement = 'all'")
    yield shop
    shop.run("ALTER DATABASE postgres RESET log_statement")


def statements(shop: Shop, act: Callable[[], object]) -> list[str]:
    """What the server was sent by us meanwhile, setting up a connection left out."""
    log = shop.world.server.home / "log"
    start = log.stat().st_size
    act()
    sent = SENT.findall(log.read_bytes()[start:].decode())
    return [text for _, text in sent if "set_config" not in text]  # nor heartbeats


def mirror(shop: Shop, first: int, count: int) -> None:
    for n in range(first, first + count):
        shop.run(f"CREATE TABLE t{n} (id int PRIMARY KEY, a text)", f"INSERT INTO t{n} VALUES (1, 'x')")
        shop.tr.create_mirror(f"t{n}", f"shop.public.t{n}")


def sent_by_each(shop: Shop) -> dict[str, list[str]]:
    shop.tr.sync("shop")  # what is not idle: the change over, what is noted, connections that are made
    questions = ["source_status", "check_cdc_health", "wal_source_status", "slot_health", "trigger_inventory"]
    asked = {q: statements(shop, lambda q=q: shop.tr.answer(q)) for q in questions}  # type: ignore[misc]
    return {"sync": statements(shop, lambda: shop.tr.sync("shop")), **asked}


MOST = {"sync": 6, "check_cdc_health": 5}


@pytest.mark.parametrize("mode", MODES)
def test_as_many_for_twenty_mirrors_as_for_one(logged: Shop, mode: str) -> None:
    logged.attach(mode)
    mirror(logged, 0, 1)
    one = sent_by_each(logged)
    mirror(logged, 1, 19)
    twenty = sent_by_each(logged)
    assert {q: len(s) for q, s in twenty.items()} == {q: len(s) for q, s in one.items()}, twenty
    assert {q: len(s) for q, s in one.items() if len(s) > MOST.get(q, 2)} == {}, one


def test_a_change_costs_statements_for_its_own_mirror_only(logged: Shop) -> None:
    logged.attach("trigger")
    mirror(logged, 0, 10)
    logged.tr.sync("shop")
    logged.run("INSERT INTO t3 VALUES (2, 'y')")
    sent = statements(logged, lambda: logged.tr.sync("shop"))
    named = Counter(
        name for text in sent for name in re.findall(r"changes_\d+", text) if "EXISTS" not in text
    )
    assert len(named) <= 1
    logged.check("SELECT * FROM t3")
