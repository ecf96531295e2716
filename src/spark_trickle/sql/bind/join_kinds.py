"""The words of a JOIN -> which rows of its sides it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.algebra.operators import JoinKind
from spark_trickle.errors import UnsupportedError

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.LEFT,  # with its sides swapped
    ("RIGHT", "OUTER"): JoinKind.LEFT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    ("", "ANTI"): JoinKind.ANTI,
}


@dataclass(frozen=True)
class How:
    """What a join does with the rows of its sides: those of the first are kept, unless it is INNER."""

    kind: JoinKind
    swapped: bool  # a RIGHT JOIN: what is written second is kept


def read_join_kind(node: exp.Join) -> How:
    side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
    if (side, kind) not in _KINDS or str(node.method or "").upper() == "ASOF":
        words = f"{node.method or ''} {side} {kind} JOIN in a stream table"
        raise UnsupportedError(" ".join(words.split()), "Use another join.")
    return How(_KINDS[side, kind], side == "RIGHT")
