"""Tests that say what they show -> the page of what works with which kind of source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from reference_text import table

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("tests/sources", "tests/connectors", "tests/postgres", "tests/unit/sources", "tests/unit/targets")
KINDS = {
    "postgres": "PostgreSQL",
    "delta": "Delta Lake",
    "iceberg": "Iceberg",
    "files": "files",
    "kafka": "Kafka",
}
# What a test may show, in the order of the page.
FEATURES = {
    "Read": (
        "in place, without a copy",
        "inserted rows",
        "updated and deleted rows",
        "all tables in one snapshot",
        "compaction costs nothing",
        "rows deleted by masks (deletion vectors, position deletes)",
        "a change data feed",
        "partitions",
        "new columns",
        "renamed and dropped columns",
        "widened types",
        "nested types, decimals, timestamps with and without time zone",
        "what cannot be read is set aside with the reason",
        "what cannot be read exactly is refused by name",
        "written by the official writers",
        "in an object store",
    ),
    "Survived": (
        "a process killed at every step of a sync",
        "two processes at once",
        "history that is gone is noticed, never guessed",
        "a table that was made again is noticed",
        "an outage in the middle",
        "a random walk over operations",
    ),
    "Published": (
        "each refresh once, in one commit",
        "a process killed while it publishes",
        "two processes that publish at once",
        "changes by others are noticed",
        "repaired by comparison",
        "wider types are followed",
        "old and new image of each row",
        "published to an object store",
        "a random walk over published tables",
    ),
}


def formats_page() -> str:
    shown = dict.fromkeys(_find_marks())
    parts = "\n\n".join(_write_part(part, features, shown) for part, features in FEATURES.items())
    return f"""
# What works with which kind of source

A tick means that a test shows it; this page is written from the marks of the tests. The guides say what is
refused: [PostgreSQL](../guide/postgresql-sources.md), [Delta Lake](../guide/delta-lake.md),
[Iceberg](../guide/iceberg.md), [files that arrive](../guide/files.md), [Kafka](../guide/kafka.md).

{parts}
"""


def _write_part(part: str, features: tuple[str, ...], shown: dict[tuple[str, str], None]) -> str:
    rows = [[f, *("✓" if (kind, f) in shown else "" for kind in KINDS)] for f in features]
    return f"## {part}\n\n{table(['', *KINDS.values()], rows)}"


def _find_marks() -> Iterator[tuple[str, str]]:
    """Each kind and feature of a mark `pytest.mark.shows("delta", "inserted rows", …)`."""
    known = {f for features in FEATURES.values() for f in features}
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.shows":
                    kind, *features = (ast.literal_eval(a) for a in node.args)
                    if unknown := {kind} - KINDS.keys() | set(features) - known:
                        raise ValueError(f"{path.name}, line {node.lineno}: {unknown} is not on the page")
                    yield from ((kind, f) for f in features)
