"""Where a mirror is: each kind of position is kept in the words that catalogs have held ever since."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from spark_trickle.model.source import MirrorState, MirrorStatus, StoredPosition
from spark_trickle.sources.position import (
    BufferPosition,
    CopyPosition,
    LogPosition,
    MirrorPosition,
    move_to_position,
    read_copy_position,
    read_position,
    read_published,
)
from spark_trickle.sources.postgres.buffer import Position
from spark_trickle.sources.postgres.copy import Piece
from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.ranges import KeyRange
from spark_trickle.sources.postgres.watch import TableMarks

MOMENT = Moment(ServerSnapshot(10, 14, (11, 12)), 0x1_0000_00FF)
KEPT_MOMENT = {"snapshot": "10:14:11,12", "lsn": "1/FF"}
PARTS = Parts(("red",), ("p1", "p2"))
KEPT_PARTS = {"labels": ["red"], "partitions": ["p1", "p2"]}
RANGE = KeyRange(("id",), ("bigint",), None, ("500",))
KEPT_RANGE = {"columns": ["id"], "types": ["bigint"], "low": None, "high": ["500"]}
KEPT_PIECE = {"range": KEPT_RANGE, "position": {"token": "a1", **KEPT_MOMENT}}

POSITIONS: dict[str, tuple[MirrorPosition, dict[str, Any]]] = {
    "nothing copied": (CopyPosition(), {}),
    "copied in part": (
        CopyPosition((RANGE,), (Piece(RANGE, Position("a1", MOMENT)),)),
        {"ranges": [KEPT_RANGE], "pieces": [KEPT_PIECE]},
    ),
    "buffer": (
        BufferPosition(Position("a1", MOMENT), PARTS),
        {"token": "a1", **KEPT_MOMENT, "parts": KEPT_PARTS},
    ),
    "log": (
        LogPosition(MOMENT, "7:3", TableMarks(("c1",), ("f1",), PARTS)),
        {
            **KEPT_MOMENT,
            "published": "7:3",
            "marks": {"columns": ["c1"], "files": ["f1"], "parts": KEPT_PARTS},
        },
    ),
}
STATE = MirrorState(3, "shop", MirrorStatus.ACTIVE)


@pytest.mark.parametrize("name", POSITIONS)
def test_what_is_kept(name: str) -> None:
    position, kept = POSITIONS[name]
    assert json.loads(move_to_position(STATE, position).position.text) == kept
    assert read_position(replace(STATE, position=StoredPosition(json.dumps(kept)))) == position


def test_a_copy_beside_the_log_has_no_pieces() -> None:
    state = move_to_position(STATE, POSITIONS["log"][0])
    assert read_copy_position(state) == CopyPosition()
    assert read_published(state) == "7:3"
    assert read_published(move_to_position(STATE, POSITIONS["buffer"][0])) == ""
