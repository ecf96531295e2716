"""An operator -> the expressions in it, and the same operator with others in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Operator


def list_expressions(op: Operator) -> Iterator[Expr]:
    """Those of the operator itself, not of its inputs."""
    for f in fields(op):
        yield from _find_inside(getattr(op, f.name))


def map_expressions(op: Operator, change: Callable[[Expr], Expr]) -> Operator:
    """The operator over the same inputs, with another expression in the place of each."""
    old = {f.name: getattr(op, f.name) for f in fields(op)}
    new = {name: _change_inside(value, change) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    return replace(op, **changed) if changed else op


def _find_inside(value: Any) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _find_inside(v)
    elif _is_part(value):
        for f in fields(value):
            yield from _find_inside(getattr(value, f.name))


def _change_inside(value: Any, change: Callable[[Expr], Expr]) -> Any:
    """The value itself if nothing in it changes."""
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple(_change_inside(v, change) for v in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if not _is_part(value):
        return value
    old = {f.name: getattr(value, f.name) for f in fields(value)}
    new = {name: _change_inside(v, change) for name, v in old.items()}
    return value if all(new[name] is old[name] for name in old) else replace(value, **new)


def _is_part(value: Any) -> bool:
    """Whether it is a value of the operator that may hold expressions, such as a call or an output."""
    return not isinstance(value, Operator) and hasattr(value, "__dataclass_fields__")
