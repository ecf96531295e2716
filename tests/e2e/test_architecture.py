"""The pages about the code name packages and modules that exist, in the layers that are checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "spark_trickle"
PAGES = ["docs/architecture.md", "docs/life-of-a-row.md"]
_NAMED = re.compile(r"`([a-z_]+(?:/[a-z_*]+)+)`")
_EDGE = re.compile(r"^\s+(\w+)(?:\[.*?\])? --> (\w+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_named_exists(page: str) -> None:
    named = set(_NAMED.findall((ROOT / page).read_text()))
    assert len(named) > 10
    missing = [n for n in named if not (SOURCE / n).is_dir() and not list(SOURCE.glob(f"{n}.py"))]
    assert missing == []


def test_the_picture_shows_the_layers() -> None:
    """Every arrow points down, and every package is in the picture."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"\w+", line) for line in contracts[0]["layers"]]
    place = {name: n for n, names in enumerate(layers) for name in names if (SOURCE / name).exists()}
    edges = _EDGE.findall((ROOT / "docs/architecture.md").read_text())
    assert {name for edge in edges for name in edge} >= set(place)
    assert all(place[above] < place[below] for above, below in edges)
