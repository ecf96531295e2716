"""After any history of statements, every view of a table is what an independent engine says it must be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, seed, settings

from tests.laws.author import KEYS, history_pairs
from tests.laws.conditions import LIMITS, QUIET
from tests.laws.history import History
from tests.laws.oracle import LakeClient
from tests.laws.run import Run, Tally


def _play(pairs: tuple[History, History], folder: Path, lake: LakeClient, tally: Tally) -> None:
    for history in pairs:
        for limit in LIMITS:
            number = tally.steps["history"] = tally.steps["history"] + 1
            Run(history, folder / f"warehouse{number}", limit, lake, tally).play()


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("keys", KEYS)
def test_histories(keys: str, tmp_path: Path, lake: LakeClient) -> None:
    tally = Tally()

    @settings(QUIET, max_examples=1, derandomize=True)
    @given(history_pairs(keys))
    def law(pairs: tuple[History, History]) -> None:
        _play(pairs, tmp_path, lake, tally)

    law()
    tally.require_everything()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("keys", KEYS)
def test_many_histories(keys: str, tmp_path: Path, lake: LakeClient) -> None:
    tally = Tally()

    @seed(20_260_101)
    @settings(QUIET, max_examples=10)
    @given(history_pairs(keys))
    def law(pairs: tuple[History, History]) -> None:
        _play(pairs, tmp_path, lake, tally)

    law()
    tally.require_everything()
