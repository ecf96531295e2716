"""Every example of the guide runs, in the order of its page, and shows the output that the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.pages import GUIDE, ROOT, Reader, blocks, find_need, reader_in

# What the guide calls the database server of the reader.
SERVER = "postgresql://trickle@db.example.com/lake"
FOR_DUCKDB = "dbname=lake host=db.example.com user=trickle"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture
def reader(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """A reader who has a database server where the page speaks of one."""
    if need := find_need(page):
        pytest.skip(f"{page.name} needs {need}")
    needs_server = SERVER in page.read_text(encoding="utf-8")
    replacements = _server(request.getfixturevalue("postgres_server")) if needs_server else {}
    with reader_in(tmp_path, monkeypatch, replacements) as someone:
        yield someone


def _server(uri: str) -> dict[str, str]:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS guide")
        connection.execute("CREATE DATABASE guide")
    address = uri.replace("/postgres?", "/guide?")
    return {SERVER: address, FOR_DUCKDB: address}


@pytest.mark.parametrize("page", GUIDE, ids=lambda p: p.stem)
def test_guide(page: Path, reader: Reader) -> None:
    reader.read(page)


def test_the_guide_is_found() -> None:
    assert len(GUIDE) >= 7
    assert all(any(b.kind.startswith(("python", "sql")) for b in blocks(p.read_text())) for p in GUIDE)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []
