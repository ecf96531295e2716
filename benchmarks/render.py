"""Kept results -> tables on the terminal, and docs/benchmarks.md with its plots.

    python -m benchmarks.render

A test fails when the page is not what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import matrix, scale
from benchmarks.plots import Line, chart
from benchmarks.regions import SCENARIOS
from benchmarks.sections import Section, ordered, sections

DOCS = Path(__file__).parents[1] / "docs"
_NOTICE = "<!-- Written by python -m benchmarks.render from benchmarks/results; do not edit. -->"
_OPENING = """# Benchmarks

Every figure is a ratio of medians, between two things that ran in turn in one process on the same data; the
spread is that of the rounds. Figures in bold miss their bar, or are slower than computing everything.
`make bench` measures everything again, `python -m benchmarks --help` says how to measure a part, and
`make bench-render` writes this page from the stored results."""


def show() -> None:
    for section in sections():
        made = Table(*section.headers, title=section.title)
        for number, row in enumerate(section.rows):
            made.add_row(*row, style="red" if number in section.missed else None)
        Console(width=150).print(made)


def files() -> dict[str, str]:
    """Path under docs -> content."""
    plots = _plots()
    return {"benchmarks.md": _page(plots), **{f"plots/{name}": svg for name, (_, svg) in plots.items()}}


def write() -> None:
    (DOCS / "plots").mkdir(exist_ok=True)
    for gone in _written() - set(files()):
        (DOCS / gone).unlink()
    for path, content in files().items():
        (DOCS / path).write_text(content, encoding="utf-8")


def stale() -> Iterator[str]:
    """Files that are missing, differ, or should not be there."""
    made = files()
    yield from sorted(_written() - set(made))
    for path, content in made.items():
        if not (DOCS / path).is_file() or (DOCS / path).read_text(encoding="utf-8") != content:
            yield path


def _written() -> set[str]:
    return {f"plots/{path.name}" for path in (DOCS / "plots").glob("*.svg")}


def _page(plots: dict[str, tuple[str, str]]) -> str:
    parts = [_NOTICE, _OPENING]
    parts += [f"![{title}](plots/{name})" for name, (title, _) in plots.items()]
    return "\n\n".join([*parts, *(_markdown(s) for s in sections())]) + "\n"


def _markdown(section: Section) -> str:
    rows = [
        tuple(f"**{c}**" if c and n in section.missed else c for c in row)
        for n, row in enumerate(section.rows)
    ]
    lines = [section.headers, ("---",) * len(section.headers), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {section.title}\n\n{section.text}\n\n{table}"


def _bold(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"**{cell}**" if cell else "" for cell in row)


def _plots() -> dict[str, tuple[str, str]]:
    """File name -> title and picture."""
    found = {}
    cells = ordered(matrix.STORE.load())
    for rows in sorted({c.rows for c in cells}):
        title = f"Where a differential refresh pays, {rows:,} rows"
        lines = []
        for number, name in enumerate(SCENARIOS):
            if points := tuple(
                (c.percent, c.speed_up) for c in cells if (c.scenario, c.rows) == (name, rows)
            ):
                lines.append(Line(name, points, number))
        found[f"crossover-{rows}.svg"] = (
            title,
            chart(title, "changed rows, percent", "full ÷ differential", lines),
        )
    if grown := sorted(scale.STORE.load(), key=lambda s: s.rows):
        title = f"A change of {grown[0].changed:,} rows as the table grows"
        lines = []
        for number, name in enumerate(n for n in scale.NAMES if any(s.scenario == n for s in grown)):
            mine = [s for s in grown if s.scenario == name]
            lines.append(Line(name, tuple((s.rows, s.differential_ms) for s in mine), number))
            lines.append(Line(f"{name}, full", tuple((s.rows, s.full_ms) for s in mine), number, dashed=True))
        found["flat.svg"] = (title, chart(title, "rows of the table", "milliseconds", lines))
    return found


if __name__ == "__main__":
    show()
    write()
