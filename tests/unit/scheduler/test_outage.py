"""A catalog that goes away under a running scheduler: told once, waited for; at the start it is an error."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import event

from spark_trickle.errors import WarehouseError
from spark_trickle.lake.catalog import scheduling
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.warehouse import Warehouse, open_warehouse
from spark_trickle.scheduler.loop import Scheduler
from tests.unit.scheduler.loops import goes_on, idle_scheduler, until


@dataclass
class Server:
    """A catalog whose server can be stopped, as far as its users can tell."""

    warehouse: Warehouse
    down: threading.Event = field(default_factory=threading.Event)
    refused: int = 0

    def __post_init__(self) -> None:
        @event.listens_for(self.warehouse.engine, "do_execute")
        def _answer(*_: object) -> None:
            if self.down.is_set():
                self.refused += 1
                raise sqlite3.OperationalError("server closed the connection unexpectedly")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    warehouse = open_warehouse(tmp_path / "warehouse", None, 5.0)
    yield Server(warehouse)
    warehouse.engine.dispose()


def outage(server: Server, scheduler: Scheduler) -> None:
    """Until it was tried again more than once, and then worked again."""
    server.refused = 0
    server.down.set()
    until(lambda: server.refused > 2 or not scheduler.running)
    server.down.clear()
    goes_on(scheduler)


def test_a_catalog_that_comes_back_is_told_of_once(server: Server) -> None:
    told: list[Alert] = []
    with idle_scheduler(server.warehouse, told) as scheduler:
        goes_on(scheduler)
        for times in (1, 2):
            outage(server, scheduler)
            assert (scheduler.running, scheduler.failure) == (True, None)
            assert [a.event for a in told] == ["catalog_unavailable"] * times
    assert "server closed the connection" in told[0].message
    assert sorted(scheduling.read_alerts(server.warehouse.engine), key=lambda a: a.raised) == told


def test_a_catalog_that_is_away_at_the_start_ends_it(server: Server) -> None:
    server.down.set()
    with pytest.raises(WarehouseError, match="server closed the connection"):
        idle_scheduler(server.warehouse, []).run()


def test_it_can_be_stopped_while_the_catalog_is_away(server: Server) -> None:
    told: list[Alert] = []
    with idle_scheduler(server.warehouse, told) as scheduler:
        goes_on(scheduler)
        server.down.set()
        until(lambda: bool(told) or not scheduler.running)
    assert scheduler.failure is None
    server.down.clear()
    with open_reader(server.warehouse.engine) as connection:
        held = scheduling.read_holder(connection)
    assert held is not None  # until its lease runs out
