"""The rows of dependency_tree() -> a drawing: a tree of text, mermaid, or dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FORMS = ("tree", "mermaid", "dot")


def draw_graph(rows: Sequence[dict[str, Any]], form: str) -> str:
    if form == "tree":
        return "\n".join(f"{r['tree']} ({r['kind']})" for r in rows)
    kinds = sorted({(r["name"], r["kind"] == "TABLE") for r in rows})
    ids = {name: f"n{n}" for n, (name, _) in enumerate(kinds)}
    edges = sorted({(ids[r["reads"]], ids[r["name"]]) for r in rows if r["reads"]})
    return _render_mermaid(kinds, ids, edges) if form == "mermaid" else _render_dot(kinds, ids, edges)


def _render_mermaid(kinds: list[tuple[str, bool]], ids: dict[str, str], edges: list[tuple[str, str]]) -> str:
    nodes = [f'  {ids[n]}[("{n}")]' if is_table else f'  {ids[n]}["{n}"]' for n, is_table in kinds]
    return "\n".join(["graph LR", *nodes, *(f"  {a} --> {b}" for a, b in edges)])


def _render_dot(kinds: list[tuple[str, bool]], ids: dict[str, str], edges: list[tuple[str, str]]) -> str:
    nodes = [f'  {ids[n]} [label="{n}" shape={"cylinder" if t else "box"}];' for n, t in kinds]
    return "\n".join(
        ["digraph trickle {", "  rankdir=LR;", *nodes, *(f"  {a} -> {b};" for a, b in edges), "}"]
    )
