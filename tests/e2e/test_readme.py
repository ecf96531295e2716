"""The README keeps its word: its example runs, DuckDB reads the result, and two commands set it all up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.pages import ROOT, blocks, reader_in

README = ROOT / "README.md"


def test_examples_run_and_show_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reader_in(tmp_path, monkeypatch) as reader:
        reader.read(README)


def test_the_first_example_is_short() -> None:
    example = next(b for b in blocks(README.read_text(encoding="utf-8")) if b.kind == "python")
    assert len(example.text.splitlines()) <= 20
    assert example.output is not None


def test_two_commands_set_it_up() -> None:
    commands = next(b for b in blocks(README.read_text(encoding="utf-8")) if b.kind == "sh").text
    targets = [line.split("#")[0].split() for line in commands.splitlines() if line.strip()]
    assert targets == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{target}:" in makefile for _, target in targets)
