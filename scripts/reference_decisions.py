"""The decisions -> a page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from reference_text import table

_FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
_HEAD = re.compile(r"# \d+\. (.+)\n\n\*\*Status:\*\* (.+)")


def decisions_page() -> str:
    rows = [_write_row(page) for page in sorted(_FOLDER.glob("[0-9]*.md"))]
    return f"""
# Decisions

Why spark-trickle is built as it is: what is hard to reverse, what it was preferred to, and what it costs. A
page says what was measured when it was written; [benchmarks](../benchmarks.md) has the newest figures.

{table(["", "decision", "status"], rows)}
"""


def _write_row(page: Path) -> list[str]:
    found = _HEAD.match(page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page.name} does not begin with a title and a status")
    return [page.name[:4].lstrip("0"), f"[{found[1]}]({page.name})", found[2]]
