"""Markdown pages -> their fenced blocks, run from top to bottom as a reader would.

```python        runs in the namespace of the page, in an empty folder; its output is what it prints
```sql           runs in the warehouse that the page calls `tr`; its output is that of the last statement
```sql error     the same, but the last statement must fail; its output is the error
```sql duckdb    runs in DuckDB, for the whole page on one connection
```text          directly after one of these: the output that it must have
Blocks of any other kind are not run.

A page that needs what most readers do not have says so in its first line: <!-- needs … -->. Its examples are run
by the tests that have it.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from spark_trickle.cli.script import split_script
from spark_trickle.errors import TrickleError

ROOT = Path(__file__).parents[2]
GUIDE = [
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
    *(ROOT / "docs" / p for p in ("life-of-a-row.md", "write-a-source.md")),
]
_FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


_NEED = re.compile(r"<!-- needs (.*) -->\n")


def find_need(page: Path) -> str:
    """What a page cannot run without, or nothing."""
    found = _NEED.match(page.read_text(encoding="utf-8"))
    return found[1] if found else ""


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int
    output: str | None = None  # the text block that directly follows


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, each with the output that the page shows for it."""
    found = list(_FENCE.finditer(page))
    made: list[Block] = []
    for at, fence in enumerate(found):
        follower = found[at + 1] if at + 1 < len(found) else None
        shown = None
        if follower and follower["kind"] == "text" and not page[fence.end() : follower.start()].strip():
            shown = follower["text"].rstrip("\n")
        line = page.count("\n", 0, fence.start()) + 1
        made.append(Block(fence["kind"].strip(), fence["text"], line, shown))
    return made


@dataclass
class Reader:
    """Someone who types in a page; `replacements` stand for addresses that only the reader can know."""

    replacements: Mapping[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    _duck: duckdb.DuckDBPyConnection | None = None

    def read(self, page: Path) -> None:
        for block in blocks(page.read_text(encoding="utf-8")):
            place = f"{page.name}:{block.line}"
            try:
                output = self._run(block)
            except Exception as error:
                pytest.fail(f"{place} does not run: {type(error).__name__}: {error}")
            if output is not None and block.output is not None:
                assert output == block.output, f"{place} shows another output"

    def close(self) -> None:
        for value in {id(v): v for v in self.names.values() if hasattr(v, "catalog_url")}.values():
            value.close()
        if self._duck is not None:
            self._duck.close()

    def _run(self, block: Block) -> str | None:
        text = block.text
        for shown, meant in self.replacements.items():
            text = text.replace(shown, meant)
        match block.kind:
            case "python":
                return _printed(lambda: exec(compile(text, f"line {block.line}", "exec"), self.names))
            case "sql":
                return self._sql(text, block.output is not None)
            case "sql error":
                return self._failing_sql(text)
            case "sql duckdb":
                return self._duckdb(text)
            case _:
                return None

    def _sql(self, text: str, shown: bool) -> str:
        *before, last = split_script(text)
        for entry in before:
            self.names["tr"].sql(entry.sql).collect()
        frame = self.names["tr"].sql(last.sql)
        if not shown:
            frame.collect()
            return ""
        return _printed(lambda: frame.show(50, truncate=False))

    def _failing_sql(self, text: str) -> str:
        try:
            self._sql(text, shown=False)
        except TrickleError as error:
            return str(error)
        raise AssertionError("the statement was expected to fail")

    def _duckdb(self, text: str) -> str:
        self._duck = self._duck or duckdb.connect()
        answer = ""
        for statement in self._duck.extract_statements(text):
            found = self._duck.execute(statement)
            answer = "\n".join(_line(row) for row in found.fetchall())
        return answer


def _line(row: tuple[Any, ...]) -> str:
    return " | ".join("NULL" if value is None else str(value) for value in row)


def _printed(action: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        action()
    return out.getvalue().strip("\n")


@contextlib.contextmanager
def reader_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replacements: Mapping[str, str] | None = None
) -> Iterator[Reader]:
    """A reader in an empty folder whose DuckDB has its extensions installed."""
    _install_extensions(folder / "home")
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "place").mkdir()
    monkeypatch.chdir(folder / "place")
    someone = Reader(replacements or {})
    try:
        yield someone
    finally:
        someone.close()


def _install_extensions(home: Path) -> None:
    """Put DuckDB's extensions where INSTALL would put them; they come from wheels, not from the net."""
    with duckdb.connect() as connection:
        release = connection.execute("SELECT library_version FROM pragma_version()").fetchall()[0][0]
        platform = connection.execute("PRAGMA platform").fetchall()[0][0]
    folder = home / ".duckdb" / "extensions" / release / platform
    folder.mkdir(parents=True)
    for site in map(Path, sys.path):
        for extension in site.glob("duckdb_extension_*/extensions/*/*.duckdb_extension"):
            if not (folder / extension.name).exists():
                (folder / extension.name).symlink_to(extension)
