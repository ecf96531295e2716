"""Whatever happens to warehouses, what they show is exact, or they say why they show nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.attack import run_attack


def test_a_short_walk(tmp_path: Path) -> None:
    assert sum(run_attack(tmp_path, seed=1, steps=12).values()) >= 12


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_minutes(tmp_path: Path) -> None:
    for seed in range(100, 103):
        (tmp_path / str(seed)).mkdir()
        run_attack(tmp_path / str(seed), seed, seconds=40)
