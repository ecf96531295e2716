"""Trees <-> JSON, so that a plan is kept as it was bound."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from spark_trickle.algebra import operators, stateful_operators
from spark_trickle.algebra.operators import Operator

_CLASSES: dict[str, type[Any]] = {
    c.__name__: c
    for module in (operators, stateful_operators)
    for c in vars(module).values()
    if isinstance(c, type) and (is_dataclass(c) or issubclass(c, StrEnum))
}


def dump(plans: tuple[Operator, ...]) -> str:
    return json.dumps([_encode(p) for p in plans], separators=(",", ":"))


def load(text: str) -> tuple[Operator, ...]:
    return tuple(_decode(p) for p in json.loads(text))


def _encode(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return {"": type(value).__name__, "v": value.value}
    if is_dataclass(value):
        parts = {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
        return {"": type(value).__name__, **parts}
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    if isinstance(value, frozenset):
        return {"": "set", "v": sorted(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(v) for v in value)
    if not isinstance(value, dict):
        return value
    kind = value[""]
    if kind == "set":
        return frozenset(value["v"])
    cls = _CLASSES[kind]
    if issubclass(cls, StrEnum):
        return cls(value["v"])
    return cls(**{k: _decode(v) for k, v in value.items() if k})
