"""Case files -> cases: some tables, a query over them, steps that change the tables, and what each step does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Bag = Counter[Row]

_ROW = r"\((?:'[^']*'|[^()'])*\)"
_TABLE = re.compile(r"(\w+)\s*\(([^)]*)\)(.*)", re.S)
_ROWS = re.compile(rf"\s*(?:{_ROW}\s*)*")
_SIGNED = re.compile(rf"\s*(?:[+-]{_ROW}\s*)*")
_CHANGES = re.compile(rf"\s*(\w+)((?:\s*[+-]{_ROW})+)")
_VALUE = re.compile(r"\s*('[^']*'|[^,']+?)\s*(?:,|$)")
_WORDS = {"null": None, "true": True, "false": False}


@dataclass(frozen=True)
class CaseTable:
    name: str
    columns: tuple[tuple[str, str], ...]  # (name, type)
    rows: Bag


@dataclass(frozen=True)
class Step:
    """Rows that go and come in the tables, and the net change of the stream table."""

    changes: dict[str, Bag]
    delta: Bag
    line: int


@dataclass(frozen=True)
class Case:
    family: str  # the file, without its ending
    number: int
    name: str
    tables: tuple[CaseTable, ...]
    view: str
    oracle: str  # what DuckDB is asked: the view, unless DuckDB takes that for something else
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        return f"{self.family}-{re.sub(r'[^A-Za-z0-9]+', '-', self.name).strip('-')}"

    @property
    def schema(self) -> str:
        return f"case_{self.family}_{self.number}"


@dataclass
class _Draft:
    """A case while its lines are read."""

    name: str
    tables: list[CaseTable] = field(default_factory=list)
    view: str = ""
    oracle: str = ""
    steps: list[Step] = field(default_factory=list)
    open: tuple[dict[str, Bag], int] | None = None  # a step whose delta is still to come


class CaseError(ValueError):
    """A case file that cannot be understood."""


def read_cases(folder: Path) -> list[Case]:
    """All cases of a folder, in the order of their files."""
    return [case for path in sorted(folder.glob("*.case")) for case in read_case_file(path)]


def read_case_file(path: Path) -> list[Case]:
    return parse_cases(path.read_text(), path.stem)


def parse_cases(text: str, family: str) -> list[Case]:
    drafts: list[_Draft] = []
    for number, word, rest in _lines(text):
        try:
            if word == "#":
                drafts.append(_Draft(rest))
            else:
                _add(drafts[-1], word, rest, number)
        except (CaseError, IndexError) as error:
            raise CaseError(f"{family}, line {number}: {error}") from None
    return [_finished(draft, family, n) for n, draft in enumerate(drafts, start=1)]


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, first word, the rest); a line that begins with a space goes on with the one before."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(" ") and line.strip() and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif line.strip():
            found.append((number, line.rstrip()))
    for number, line in found:
        word, _, rest = line.partition(" ")
        yield number, word, rest.strip()


def _add(draft: _Draft, word: str, rest: str, line: int) -> None:
    match word:
        case "table":
            draft.tables.append(_table(rest))
        case "view" if not draft.view:
            draft.view = rest
        case "oracle" if not draft.oracle:
            draft.oracle = rest
        case "step" if draft.open is None:
            draft.open = _changes(rest, {t.name: len(t.columns) for t in draft.tables}), line
        case "delta" if draft.open is not None:
            draft.steps.append(Step(draft.open[0], _signed(rest), draft.open[1]))
            draft.open = None
        case _:
            raise CaseError(f"{word!r} is not expected here")


def _finished(draft: _Draft, family: str, number: int) -> Case:
    if not (draft.tables and draft.view and draft.steps) or draft.open is not None:
        raise CaseError(f"{family}: {draft.name!r} lacks a table, a view, a step or a delta")
    oracle = draft.oracle or draft.view
    return Case(family, number, draft.name, tuple(draft.tables), draft.view, oracle, tuple(draft.steps))


def _table(text: str) -> CaseTable:
    found = _TABLE.fullmatch(text)
    if found is None:
        raise CaseError("write: table t(a int, b int)   (1, 2) (3, NULL)")
    name, columns, rows = found.groups()
    pairs = [c.split() for c in columns.split(",")]
    if any(len(p) != 2 for p in pairs) or not _ROWS.fullmatch(rows):
        raise CaseError("write: table t(a int, b int)   (1, 2) (3, NULL)")
    bag: Bag = Counter(_row(r, len(pairs)) for r in re.findall(_ROW, rows))
    return CaseTable(name, tuple((n, k) for n, k in pairs), bag)


def _changes(text: str, widths: dict[str, int]) -> dict[str, Bag]:
    changes: dict[str, Bag] = {}
    rest = text
    while rest.strip():
        found = _CHANGES.match(rest)
        if found is None or found[1] not in widths:
            raise CaseError(f"write: step t -(1, 2) +(1, 3); not {rest!r}")
        changes[found[1]] = changes.get(found[1], Counter()) + Counter()
        changes[found[1]].update(_signed(found[2], widths[found[1]]))
        rest = rest[found.end() :]
    return changes


def _signed(text: str, width: int | None = None) -> Bag:
    if not _SIGNED.fullmatch(text):
        raise CaseError(f"write rows as -(1, 2) +(1, 3); not {text!r}")
    bag: Bag = Counter()
    for sign, row in re.findall(rf"([+-])({_ROW})", text):
        bag[_row(row, width)] += 1 if sign == "+" else -1
    return Counter({row: n for row, n in bag.items() if n})


def _row(text: str, width: int | None) -> Row:
    row = tuple(_value(v) for v in _VALUE.findall(text[1:-1]))
    if width is not None and len(row) != width:
        raise CaseError(f"{text} has {len(row)} values for {width} columns")
    return row


def _value(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise CaseError(f"{text!r} is no value") from None
