"""What a moment has seen: our rule and the server's are the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot, parse_lsn, show_lsn
from tests.postgres.world import World


@st.composite
def snapshots(draw: st.DrawFn) -> ServerSnapshot:
    # No transaction has an id whose lower half is 0 to 2.
    low = (draw(st.integers(0, 1 << 20)) << 32) + draw(st.integers(3, (1 << 32) - 100))
    running = draw(st.sets(st.integers(low + 1, low + 30)))
    high = draw(st.integers(low + 31, low + 60))
    return ServerSnapshot(low, high, tuple(sorted({low, *running})))


@given(snapshots())
def test_the_text_comes_back(snapshot: ServerSnapshot) -> None:
    assert ServerSnapshot.parse(str(snapshot)) == snapshot


def test_nothing_running() -> None:
    assert ServerSnapshot.parse("7:7:") == ServerSnapshot(7, 7)
    assert str(ServerSnapshot(7, 7)) == "7:7:"


def test_the_server_agrees(world: World) -> None:
    application = world.application()

    @settings(max_examples=30)
    @given(snapshots())
    def agrees(snapshot: ServerSnapshot) -> None:
        near = [x for x in range(max(snapshot.low - 5, 0), snapshot.high + 5) if x & 0xFFFFFFFF > 2]
        query = (
            "SELECT x::text::int8 FROM unnest(%s::text[]::xid8[]) AS x WHERE pg_visible_in_snapshot(x, %s)"
        )
        seen = {x for (x,) in application.execute(query, [[str(x) for x in near], str(snapshot)])}
        assert seen == {x for x in near if snapshot.sees(x)}

    agrees()


@given(st.integers(1 << 31, 1 << 62), st.integers(-(1 << 31) + 1, (1 << 31) - 1))
def test_short_ids_are_widened(high: int, distance: int) -> None:
    xid = high + distance
    assert ServerSnapshot(high, high).widen(xid & 0xFFFFFFFF) == xid


HAS_SEEN = [
    # xid, where it committed -> seen by the moment 10:20:15 at 1000
    (9, 500, True),
    (15, 500, False),
    (16, 999, True),
    (16, 1000, False),
    (20, 500, False),
]


@pytest.mark.parametrize(("xid", "lsn", "seen"), HAS_SEEN)
def test_has_seen(xid: int, lsn: int, seen: bool) -> None:
    assert Moment(ServerSnapshot(10, 20, (15,)), 1000).has_seen(xid, lsn) is seen


@given(st.integers(0, (1 << 64) - 1))
def test_positions_of_the_log(lsn: int) -> None:
    assert parse_lsn(show_lsn(lsn)) == lsn


def test_as_the_server_writes_them() -> None:
    assert show_lsn(0x16_B374D848) == "16/B374D848"
