"""The laws are worth something: every rule that is broken on purpose is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laws.mutants import MUTANTS, Mutant, broken, is_caught


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_still_fits_the_source(mutant: Mutant, tmp_path: Path) -> None:
    assert broken(mutant, tmp_path).is_dir()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    assert is_caught(mutant, tmp_path)
