"""One warehouse for a file of tests: each test makes its own table in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from spark_trickle.lake.warehouse import open_warehouse
from tests.unit.lake.lakes import Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    warehouse = open_warehouse(tmp_path_factory.mktemp("lake") / "warehouse", None, 5.0)
    warehouse.engine.dispose()  # so that the next connection is prepared as follows

    @event.listens_for(warehouse.engine, "connect")
    def _hurry(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")  # what a power cut would do is not tested here

    yield Lake(warehouse)
    warehouse.engine.dispose()


@pytest.fixture(scope="module")
def dead_process() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid
