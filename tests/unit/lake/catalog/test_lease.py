"""Leases: who still works on a warehouse, told by the process on this machine and by the clock elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from time import monotonic

import pytest
from sqlalchemy import delete, insert, select

from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.lease import (
    Lease,
    SessionLease,
    forget_dead,
    read_active_leases,
    release_lease,
    renew_lease,
    this_host,
)
from tests.unit.lake.lakes import NOW, Lake

KEEP = timedelta(minutes=30)
SOON, PAST = NOW + timedelta(minutes=1), NOW - timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _no_leases(lake: Lake) -> Iterator[None]:
    yield
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(delete(s.trickle_lease))


def leases(lake: Lake) -> dict[str, Lease]:
    with open_reader(lake.warehouse.engine) as connection:
        return {row.session_id: Lease(*row) for row in connection.execute(select(s.trickle_lease))}


STATES = [
    # host, process, expires -> may write, may read
    ("here", "alive", SOON, True, True),
    ("here", "alive", PAST, True, False),
    ("here", "dead", SOON, False, False),
    ("here", "dead", PAST, False, False),
    ("elsewhere", "alive", SOON, True, True),
    ("elsewhere", "dead", SOON, True, True),
    ("elsewhere", "alive", PAST, False, False),
    ("elsewhere", "alive", NOW, False, False),
]


@pytest.mark.parametrize(("host", "process", "expires", "writes", "reads"), STATES)
def test_states(
    host: str, process: str, expires: datetime, writes: bool, reads: bool, dead_process: int
) -> None:
    lease = Lease(
        "s",
        this_host() if host == "here" else "other/boot",
        os.getpid() if process == "alive" else dead_process,
        3,
        expires,
    )
    assert (lease.is_active(NOW), lease.may_read(NOW)) == (writes, reads)


def test_a_process_of_another_user_is_alive() -> None:
    assert Lease("s", this_host(), 1, 3, PAST).is_active(NOW)


def test_renewing_replaces_and_releasing_removes(lake: Lake) -> None:
    with open_writer(lake.warehouse.engine) as connection:
        renew_lease(connection, "mine", 3, NOW, KEEP)
        renew_lease(connection, "mine", 5, SOON, KEEP)
        renew_lease(connection, "other", 7, NOW, KEEP)
    found = leases(lake)
    assert found["mine"] == Lease("mine", this_host(), os.getpid(), 5, SOON + KEEP)
    assert set(found) == {"mine", "other"}
    with open_writer(lake.warehouse.engine) as connection:
        release_lease(connection, "mine", NOW)
    assert set(leases(lake)) == {"other"}


def test_only_the_dead_are_forgotten(lake: Lake, dead_process: int) -> None:
    rows = {
        "alive": Lease("alive", this_host(), os.getpid(), 1, PAST),
        "dead": Lease("dead", this_host(), dead_process, 2, SOON),
        "far": Lease("far", "other/boot", dead_process, 3, SOON),
        "far and late": Lease("far and late", "other/boot", os.getpid(), 4, PAST),
    }
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(insert(s.trickle_lease), [vars(x) for x in rows.values()])
        assert {x.session_id for x in read_active_leases(connection, NOW)} == {"alive", "far"}
        forget_dead(connection, NOW)
    assert leases(lake) == {name: rows[name] for name in ("alive", "far")}


def reads_since(lake: Lake) -> int | None:
    found = leases(lake).get("me")
    return None if found is None else found.reads_since


def test_a_session_covers_the_oldest_snapshot_it_handed_out(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", KEEP)
    session.cover(7, NOW)
    assert reads_since(lake) == 7
    session.cover(9, NOW)
    assert reads_since(lake) == 7
    session.cover(3, NOW)
    assert reads_since(lake) == 3
    session.end()
    assert reads_since(lake) is None


def test_a_lease_is_renewed_while_something_runs(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", timedelta(milliseconds=10))
    with session.keep_renewed(7):
        first, end = leases(lake)["me"].expires, monotonic() + 60
        while leases(lake)["me"].expires == first:
            assert monotonic() < end, "nobody renewed it"
    assert reads_since(lake) == 7


def test_a_fresh_lease_is_not_written_again(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", KEEP)
    session.cover(7, NOW)
    first = leases(lake)["me"]
    session.cover(8, NOW + KEEP / 100)
    assert leases(lake)["me"] == first
    session.cover(9, NOW + KEEP * 3 / 4)
    assert leases(lake)["me"].expires >= NOW + KEEP * 7 / 4


def test_reading_a_snapshot_again_covers_it_anew(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", KEEP)
    session.cover(7, NOW)
    session.cover(7, NOW + KEEP * 3 / 4)
    session.cover(9, NOW + KEEP * 3 / 2)
    assert reads_since(lake) == 7


def test_what_is_handed_out_is_covered_for_the_whole_time(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", KEEP)
    session.cover(7, NOW)
    later = NOW + KEEP / 2 - timedelta(seconds=1)
    session.cover(8, later)
    assert leases(lake)["me"].may_read(later + KEEP - timedelta(seconds=1))


def test_old_snapshots_are_let_go_in_the_end(lake: Lake) -> None:
    session = SessionLease(lake.warehouse.engine, "me", KEEP)
    session.cover(7, NOW)
    session.cover(9, NOW + KEEP * 3)
    assert reads_since(lake) == 9


def test_ending_a_session_that_read_nothing_writes_nothing(lake: Lake) -> None:
    SessionLease(lake.warehouse.engine, "me", KEEP).end()
    assert reads_since(lake) is None
