"""Positions of mirrors: the form that the catalog stores <-> the values that the PostgreSQL reader uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from spark_trickle.sources.postgres.buffer import Position
from spark_trickle.sources.postgres.copy import Piece
from spark_trickle.sources.postgres.moment import Moment, Snapshot, parse_lsn, show_lsn
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.ranges import KeyRange
from spark_trickle.sources.postgres.watch import TableMarks


def keep_position(position: Position) -> dict[str, Any]:
    return {"token": position.token, **keep_moment(position.moment)}


def keep_buffer_position(position: Position, parts: Parts) -> dict[str, Any]:
    """For a mirror that follows a buffer: how far it is, and what its table must not have lost since."""
    return {**keep_position(position), "parts": asdict(parts)}


def read_parts(kept: Mapping[str, Any]) -> Parts:
    return Parts.from_json(kept["parts"])


def keep_moment(moment: Moment) -> dict[str, Any]:
    return {"snapshot": str(moment.snapshot), "lsn": show_lsn(moment.lsn)}


def read_position(kept: Mapping[str, Any]) -> Position:
    return Position(kept["token"], read_moment(kept))


def read_moment(kept: Mapping[str, Any]) -> Moment:
    return Moment(Snapshot.parse(kept["snapshot"]), parse_lsn(kept["lsn"]))


def keep_log_position(moment: Moment, published: str, marks: TableMarks) -> dict[str, Any]:
    """For a mirror that follows the log: what its copy has seen, and what must not change unnoticed."""
    return {**keep_moment(moment), "published": published, "marks": asdict(marks)}


def read_marks(kept: Mapping[str, Any]) -> TableMarks:
    return TableMarks.from_json(kept["marks"])


def with_parts(kept: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The position of a mirror that follows the log, with the parts that its table has now."""
    return {**kept, "marks": asdict(replace(read_marks(kept), parts=parts))}


def keep_ranges(ranges: Sequence[KeyRange]) -> list[dict[str, Any]]:
    return [asdict(r) for r in ranges]


def read_range(kept: Mapping[str, Any]) -> KeyRange:
    return KeyRange(
        tuple(kept["columns"]),
        tuple(kept["types"]),
        tuple(kept["low"]) if kept["low"] is not None else None,
        tuple(kept["high"]) if kept["high"] is not None else None,
    )


def keep_piece(piece: Piece) -> dict[str, Any]:
    return {"range": asdict(piece.key_range), "position": keep_position(piece.position)}


def read_piece(kept: Mapping[str, Any]) -> Piece:
    return Piece(read_range(kept["range"]), read_position(kept["position"]))
