"""A SELECT while its tree grows: rows so far, the meaning of names, and what is still to be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.algebra.operators import Operator
from spark_trickle.sql.bind.query import Env
from spark_trickle.sql.bind.scope import Scope


@dataclass
class Block:
    """A SELECT while its tree grows."""

    plan: Operator
    scope: Scope
    env: Env
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """One expression of the list, with its name."""

    name: str
    node: exp.Expr


@dataclass(frozen=True)
class Tail:
    """What is computed after WHERE: each part is rewritten by every step."""

    items: list[Item]
    having: exp.Expr | None
    qualify: exp.Expr | None
    order: list[tuple[exp.Ordered, exp.Expr]]

    def map(self, change: Callable[[exp.Expr], exp.Expr]) -> Tail:
        return Tail(
            [Item(i.name, change(i.node)) for i in self.items],
            None if self.having is None else change(self.having),
            None if self.qualify is None else change(self.qualify),
            [(o, change(n)) for o, n in self.order],
        )

    @property
    def nodes(self) -> list[exp.Expr]:
        rest = [n for n in (self.having, self.qualify) if n is not None]
        return [*(i.node for i in self.items), *rest, *(n for _, n in self.order)]
