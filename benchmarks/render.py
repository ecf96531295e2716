"""Kept results -> one table for people, and the same as Markdown for the docs."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Ratio, load_all

HEADERS = ("benchmark", "what", "against", "ratio", "bar", "spread", "rounds")


def cells(line: Ratio) -> tuple[str, ...]:
    bar = "" if line.bar is None else f"≤ {line.bar:g}×"
    return (
        line.benchmark,
        line.what,
        line.baseline,
        f"{line.ratio:.2f}×",
        bar,
        f"±{line.spread / 2:.0%}",
        str(line.rounds),
    )


def show() -> None:
    table = Table(*HEADERS, title="ratios of medians, measured side by side")
    for line in load_all():
        met = line.bar is None or line.ratio <= line.bar
        table.add_row(*cells(line), style=None if met else "red")
    Console(width=150).print(table)


def markdown() -> str:
    lines = ["| " + " | ".join(HEADERS) + " |", "|" + "---|" * len(HEADERS)]
    return "\n".join(lines + ["| " + " | ".join(cells(line)) + " |" for line in load_all()])


if __name__ == "__main__":
    show()
