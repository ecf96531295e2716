"""Positions of mirrors: the form that the catalog stores <-> the types that readers use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, assert_never

from spark_trickle.model.source import MirrorState, StoredPosition
from spark_trickle.sources.postgres.buffer import Position
from spark_trickle.sources.postgres.copy import Piece
from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot, parse_lsn, show_lsn
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.ranges import KeyRange
from spark_trickle.sources.postgres.watch import TableMarks


@dataclass(frozen=True)
class CopyPosition:
    """Of a mirror that is being copied: all ranges of its table, and those that are copied, in this order."""

    ranges: tuple[KeyRange, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class BufferPosition:
    """Of a mirror that follows a buffer: how far it is, and what its table must not have lost since."""

    reached: Position
    parts: Parts


@dataclass(frozen=True)
class LogPosition:
    """Of a mirror that follows the log: what its copy has seen, and what must not change unnoticed."""

    moment: Moment
    published: str
    marks: TableMarks

    def with_parts(self, parts: Parts) -> LogPosition:
        """The same with the parts that its table has now."""
        return replace(self, marks=replace(self.marks, parts=parts))


MirrorPosition = CopyPosition | BufferPosition | LogPosition


def move_to_position(state: MirrorState, position: MirrorPosition) -> MirrorState:
    return replace(state, position=StoredPosition(json.dumps(_to_json(position))))


def read_position(state: MirrorState) -> MirrorPosition:
    kept = _read_stored(state)
    if "published" in kept:
        return LogPosition(_moment_from_json(kept), kept["published"], TableMarks.from_json(kept["marks"]))
    if "token" in kept:
        return BufferPosition(_position_from_json(kept), Parts.from_json(kept["parts"]))
    return CopyPosition(
        tuple(_range_from_json(r) for r in kept.get("ranges", ())),
        tuple(_piece_from_json(p) for p in kept.get("pieces", ())),
    )


def read_copy_position(state: MirrorState) -> CopyPosition:
    """What of its table was copied in pieces so far; a copy beside the log has none."""
    position = read_position(state)
    return position if isinstance(position, CopyPosition) else CopyPosition()


def read_buffer_position(state: MirrorState) -> BufferPosition:
    position = read_position(state)
    assert isinstance(position, BufferPosition)
    return position


def read_log_position(state: MirrorState) -> LogPosition:
    position = read_position(state)
    assert isinstance(position, LogPosition)
    return position


def read_published(state: MirrorState) -> str:
    """The mark that its table had in the publication when it was copied; empty if the log was not used."""
    return str(_read_stored(state).get("published", ""))


def _read_stored(state: MirrorState) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(state.position.text)
    return found


# --- as JSON -----------------------------------------------------------------------------------------


def _to_json(position: MirrorPosition) -> dict[str, Any]:
    match position:
        case CopyPosition(ranges=()):
            return {}
        case CopyPosition(ranges, pieces):
            return {"ranges": [asdict(r) for r in ranges], "pieces": [_piece_to_json(p) for p in pieces]}
        case BufferPosition(reached, parts):
            return {**_position_to_json(reached), "parts": asdict(parts)}
        case LogPosition(moment, published, marks):
            return {**_moment_to_json(moment), "published": published, "marks": asdict(marks)}
    assert_never(position)


def _position_to_json(position: Position) -> dict[str, Any]:
    return {"token": position.token, **_moment_to_json(position.moment)}


def _moment_to_json(moment: Moment) -> dict[str, Any]:
    return {"snapshot": str(moment.snapshot), "lsn": show_lsn(moment.lsn)}


def _piece_to_json(piece: Piece) -> dict[str, Any]:
    return {"range": asdict(piece.key_range), "position": _position_to_json(piece.position)}


def _position_from_json(kept: Mapping[str, Any]) -> Position:
    return Position(kept["token"], _moment_from_json(kept))


def _moment_from_json(kept: Mapping[str, Any]) -> Moment:
    return Moment(ServerSnapshot.parse(kept["snapshot"]), parse_lsn(kept["lsn"]))


def _piece_from_json(kept: Mapping[str, Any]) -> Piece:
    return Piece(_range_from_json(kept["range"]), _position_from_json(kept["position"]))


def _range_from_json(kept: Mapping[str, Any]) -> KeyRange:
    low, high = (tuple(kept[end]) if kept[end] is not None else None for end in ("low", "high"))
    return KeyRange(tuple(kept["columns"]), tuple(kept["types"]), low, high)
