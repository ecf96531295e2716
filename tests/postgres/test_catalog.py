"""A catalog in PostgreSQL whose server is restarted under a running scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from spark_trickle.lake.catalog import scheduling
from spark_trickle.lake.catalog.engine import open_engine
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.catalog.site import find_site
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
    assert scheduling.read_alerts(warehouse.engine) == told
    warehouse.engine.dispose()


def test_the_site_of_a_catalog_is_what_the_server_says_of_itself(world: World, tmp_path: Path) -> None:
    """Asked by a role without rights of its own, and by whatever address."""
    with world.server.connect() as connection:
        connection.execute("CREATE DATABASE sites")
        connection.execute("CREATE ROLE plain LOGIN")
    sites = []
    for user in ("postgres", "plain"):
        engine = open_engine(make_url(f"postgresql://{user}@/sites?host={world.server.home}"), 5.0)
        sites.append(find_site(engine))
        engine.dispose()
    assert sites[0] == sites[1]
    assert sites[0].catalog.startswith("postgresql server ")
