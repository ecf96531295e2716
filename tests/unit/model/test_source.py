"""The state of a source: values here, and in the catalog the text that it has held ever since."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

from spark_trickle.model.source import CaptureMode, Mirror, SourceState, Transition, WrittenColumn
from spark_trickle.model.types import Scalar

SECOND = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
TEXT = (
    '{"capture": "WAL", "slot": "s", "publication": "p", "lsn": 255, "captured": [7, 9], "blocked": "", '
    '"attempts": 2, "retry_at": "2026-03-01T12:30:05.250000+00:00", "error": "", '
    '"synced": "2026-03-01T12:30:05+00:00", "read_until": "2026-03-01T14:30:05.000001+02:00", '
    '"read_snapshot": "10:14:11", "history": [{"at": "2026-03-01T12:30:05+00:00", "before": "TRIGGER", '
    '"after": "TRANSITIONING", "reason": "it may"}], "warehouse": "w", "epoch": 3, "consumed": 250}'
)
STATE = SourceState(
    CaptureMode.WAL,
    "s",
    "p",
    255,
    (7, 9),
    attempts=2,
    retry_at=SECOND + timedelta(milliseconds=250),
    synced=SECOND,
    read_until=datetime(2026, 3, 1, 14, 30, 5, 1, tzinfo=timezone(timedelta(hours=2))),
    read_snapshot="10:14:11",
    history=(Transition(SECOND, CaptureMode.TRIGGER, CaptureMode.TRANSITIONING, "it may"),),
    warehouse="w",
    epoch=3,
    consumed=250,
)


def test_a_state_is_kept_in_the_same_words() -> None:
    assert SourceState.from_text(TEXT) == STATE
    assert STATE.to_text() == TEXT


def test_what_has_not_happened_is_an_empty_text() -> None:
    kept = json.loads(SourceState().to_text())
    assert [kept[name] for name in ("retry_at", "synced", "read_until")] == ["", "", ""]
    assert SourceState.from_text(json.dumps(kept)) == SourceState()


def test_a_state_of_an_older_version_has_fewer_fields() -> None:
    kept = json.loads(TEXT)
    for name in ("read_until", "read_snapshot", "warehouse", "epoch", "consumed"):
        del kept[name]
    read = SourceState.from_text(json.dumps(kept))
    assert (read.read_until, read.warehouse, read.synced) == (None, "", SECOND)


def test_columns_in_place_had_no_field_ids_once() -> None:
    written = (WrittenColumn(1, "a", Scalar("long")), WrittenColumn(2, "b", Scalar("string"), 7))
    mirror = Mirror("lake", "", "t", 0, (), 0, written=written)
    kept = json.loads(json.dumps(mirror.to_json()))
    assert kept["written"] == [[1, "a", "long"], [2, "b", "string", 7]]
    assert Mirror.from_json(kept) == mirror
