"""Tools and drivers that Debian has and PyPI has not: fetched for the tests that need them, which else are skipped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
KEPT = Path(__file__).parents[1] / ".venv"
_SECONDS = 150


def fetched(script: str, *arguments: str | Path) -> str:
    """The path that a script prints for what it found or fetched."""
    try:
        done = subprocess.run(
            [SCRIPTS / script, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{script} took more than {_SECONDS} s")
    if done.returncode:
        pytest.skip(f"{script}: {done.stderr.strip()}")
    return done.stdout.strip()
