"""What comes after WHERE in a SELECT: its list, HAVING, QUALIFY and ORDER BY, rewritten step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp

_S = TypeVar("_S")


@dataclass(frozen=True)
class Item:
    """One expression of the list, with its name."""

    name: str
    node: exp.Expr


@dataclass(frozen=True)
class Tail:
    """What is computed after WHERE: each part is rewritten by every step."""

    items: tuple[Item, ...]
    having: exp.Expr | None = None
    qualify: exp.Expr | None = None
    order: tuple[tuple[exp.Ordered, exp.Expr], ...] = ()

    @property
    def nodes(self) -> list[exp.Expr]:
        rest = [n for n in (self.having, self.qualify) if n is not None]
        return [*(i.node for i in self.items), *rest, *(n for _, n in self.order)]

    def map(self, change: Callable[[exp.Expr], exp.Expr]) -> Tail:
        return self._with_nodes([change(n) for n in self.nodes])

    def map_with(self, state: _S, change: Callable[[exp.Expr, _S], tuple[exp.Expr, _S]]) -> tuple[Tail, _S]:
        """Each part rewritten in turn; what one of them leaves, the next one starts with."""
        nodes: list[exp.Expr] = []
        for node in self.nodes:
            new, state = change(node, state)
            nodes.append(new)
        return self._with_nodes(nodes), state

    def _with_nodes(self, nodes: list[exp.Expr]) -> Tail:
        rest = iter(nodes)
        return Tail(
            tuple(Item(i.name, next(rest)) for i in self.items),
            None if self.having is None else next(rest),
            None if self.qualify is None else next(rest),
            tuple((o, next(rest)) for o, _ in self.order),
        )
