"""A catalog in PostgreSQL whose server is restarted under a running scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.lake import scheduling
from spark_trickle.lake.scheduling import Alert
from spark_trickle.lake.warehouse import open_warehouse
from tests.postgres.world import World
from tests.unit.scheduler.loops import goes_on, idle_scheduler


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_is_waited_for(world: World, tmp_path: Path, mode: str) -> None:
    with world.server.connect() as connection:
        connection.execute(f"CREATE DATABASE catalog_{mode}")
    address = f"postgresql://postgres@/catalog_{mode}?host={world.server.home}"
    warehouse = open_warehouse(address, str(tmp_path), 5.0)
    told: list[Alert] = []
    with idle_scheduler(warehouse, told) as scheduler:
        goes_on(scheduler)
        world.server.stop(mode)
        world.server.start()
        goes_on(scheduler)
        assert (scheduler.running, scheduler.failure) == (True, None)
    warehouse.engine.dispose()
    assert [a.event for a in told] == ["catalog_unavailable"]
    assert scheduling.alerts(warehouse.engine) == told
    warehouse.engine.dispose()
