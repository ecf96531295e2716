"""Trees <-> JSON, so that a plan is kept as it was bound."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from spark_trickle.algebra import operators as o
from spark_trickle.algebra.references import Reference, read_reference

_CLASSES: dict[str, type[Any]] = {
    c.__name__: c
    for c in vars(o).values()
    if isinstance(c, type) and (is_dataclass(c) or issubclass(c, StrEnum))
}


def dump(plans: tuple[o.Operator, ...]) -> str:
    return json.dumps([_encode(p) for p in plans], separators=(",", ":"))


def load(text: str) -> tuple[o.Operator, ...]:
    return tuple(_decode(p) for p in json.loads(text))


def _encode(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return {"": type(value).__name__, "v": value.value}
    if isinstance(value, Reference):
        return str(value)
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
    parts = {k: read_reference(v) if k == "source" else _decode(v) for k, v in value.items() if k}
    return cls(**parts)
