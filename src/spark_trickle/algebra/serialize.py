"""Trees <-> JSON, so that a plan is kept as it was bound.

An expression is kept by its parts, or as a text where it has none that we know. All expressions of older
plans are texts; whoever loads them says how such a text is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from spark_trickle.algebra import expressions as e
from spark_trickle.algebra import operators, stateful_operators
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import Reference, read_reference
from spark_trickle.algebra.require import refuse
from spark_trickle.errors import InternalError

ReadExpression = Callable[[str, frozenset[str]], e.Expr]

_TEXT = "Expr"
_DEEPEST = 50  # parts in parts; an expression beyond that is kept as a text, which is never too deep for JSON
CLASSES: dict[str, type[Any]] = {
    c.__name__: c
    for module in (operators, stateful_operators, e)
    for c in vars(module).values()
    if isinstance(c, type) and (is_dataclass(c) or issubclass(c, StrEnum))
}


def dump(plans: tuple[Operator, ...]) -> str:
    return json.dumps([_encode_value(p) for p in plans], separators=(",", ":"))


def load(text: str, read: ReadExpression) -> tuple[Operator, ...]:
    return tuple(_decode_value(p, read) for p in json.loads(text))


def _encode_value(value: Any) -> Any:
    if isinstance(value, e.Written) or (isinstance(value, e.Expr) and value.depth > _DEEPEST):
        return {"": _TEXT, "sql": value.sql, "columns": _encode_value(value.columns)}
    if isinstance(value, StrEnum):
        return {"": type(value).__name__, "v": value.value}
    if isinstance(value, Reference):
        return str(value)
    if is_dataclass(value):
        if type(value).__name__ not in CLASSES:
            refuse(value, "stands in a change, which is never kept")
        parts = {f.name: _encode_value(getattr(value, f.name)) for f in fields(value)}
        return {"": type(value).__name__, **parts}
    if isinstance(value, tuple):
        return [_encode_value(v) for v in value]
    if isinstance(value, frozenset):
        return {"": "set", "v": sorted(value)}
    return value


def _decode_value(value: Any, read: ReadExpression) -> Any:
    if isinstance(value, list):
        return tuple(_decode_value(v, read) for v in value)
    if not isinstance(value, dict):
        return value
    kind = value[""]
    if kind == "set":
        return frozenset(value["v"])
    if kind == _TEXT:
        return e.Written(value["sql"], _decode_value(value["columns"], read), read)
    cls = CLASSES.get(kind)
    if cls is None:
        raise InternalError(f'a stored plan has an operator "{kind}", which this version does not know')
    if issubclass(cls, StrEnum):
        return cls(value["v"])
    parts = {k: read_reference(v) if k == "source" else _decode_value(v, read) for k, v in value.items() if k}
    return cls(**parts)
