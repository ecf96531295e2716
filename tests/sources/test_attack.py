"""Any order of changes, losses and copies between a source and a warehouse: exact, or a clear refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.server import Server
from tests.sources.attack import run_source_attack

MODES = ["trigger", "wal", "auto"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", MODES)
def test_a_short_walk(server: Server, tmp_path: Path, mode: str) -> None:
    assert sum(run_source_attack(tmp_path, server, mode, 7, 8).values()) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.shows("postgres", "a random walk over operations", "a random walk over published tables")
def test_a_walk(server: Server, tmp_path: Path, mode: str, seed: int) -> None:
    assert sum(run_source_attack(tmp_path, server, mode, 100 + seed, 40).values()) >= 40
