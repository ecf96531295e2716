"""What differs between versions of PostgreSQL, on each version that can be found beside the usual one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle.sources.postgres.slot import find_log_end, slot_state
from spark_trickle.sources.postgres.status import capture_findings, server_findings, slot_findings
from spark_trickle.sources.postgres.survey import first_commit, survey_captures
from tests.postgres.mirror import LogMirror, TriggerMirror
from tests.postgres.server import VERSION, new_server, versions
from tests.postgres.world import World, create

OTHERS = sorted(set(versions()) - {VERSION})
WRITES = [
    "INSERT INTO t SELECT g, 'new', g FROM generate_series(100, 120) g",
    "UPDATE t SET a = a || '!' WHERE id % 3 = 0",
    "UPDATE t SET id = id + 1000 WHERE id < 5",
    "DELETE FROM t WHERE id % 7 = 0",
    "TRUNCATE t",
    "INSERT INTO t VALUES (1, NULL, 1.50)",
]


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest) -> Iterator[World]:
    server = new_server(request.param, track_commit_timestamp="on")
    yield World(server, "postgres")
    server.remove()


@pytest.fixture
def elsewhere(other: World) -> Iterator[World]:
    world = World(other.server, other.database)
    world.run(
        create("t", "id int PRIMARY KEY, a text, b numeric(12, 2)"),
        create("rest", "a text"),
        "INSERT INTO t SELECT g, 'x' || g, g FROM generate_series(1, 50) g",
    )
    yield world
    world.clean()


@pytest.mark.parametrize("mode", ["statement", "row"])
def test_triggers(elsewhere: World, mode: str) -> None:
    mirror = TriggerMirror(elsewhere, mode=mode)
    for write in WRITES:
        elsewhere.run(write)
        mirror.poll()
        mirror.check()
    assert all(f.ok for f in capture_findings(mirror.connection))


def test_the_log(elsewhere: World) -> None:
    mirror = LogMirror(elsewhere)
    for write in WRITES:
        elsewhere.run(write)
        mirror.poll()
        mirror.check()
    assert all(f.ok for f in slot_findings(mirror.connection, "slot", "publication", 1 << 30))
    assert all(f.ok for f in server_findings(mirror.connection, wants_log=True))


def test_the_log_of_tables_that_rest(elsewhere: World) -> None:
    mirror = LogMirror(elsewhere)
    for _ in range(2):
        elsewhere.run("INSERT INTO rest SELECT repeat('x', 1000) FROM generate_series(1, 200)")
        end = find_log_end(mirror.connection, mirror.after, 65_536)
        assert end.whole
        mirror.poll()
        state = slot_state(mirror.connection, "slot")
        assert state is not None
        assert state.confirmed >= end.lsn
        assert state.lag_bytes < 65_536


def test_when_what_waits_in_buffers_was_committed(elsewhere: World) -> None:
    """Told by servers that track it: the first commit that was not read, in whatever buffer."""
    connection = elsewhere.connect()
    mirrors = [TriggerMirror(elsewhere, name, connection) for name in ("public.t", "public.rest")]
    clock = "SELECT extract(epoch FROM clock_timestamp())"
    elsewhere.run("INSERT INTO rest VALUES ('read')")
    for mirror in mirrors:
        mirror.poll()
    ((before,),) = elsewhere.rows(clock)
    elsewhere.run("INSERT INTO rest VALUES ('first')")
    ((after,),) = elsewhere.rows(clock)
    elsewhere.run(WRITES[0])
    since = {m.capture.source.oid: m.position.moment.snapshot for m in mirrors}
    schema = mirrors[0].capture.schema
    seen = survey_captures(connection, schema, since=since)
    assert seen.tells_commits
    assert seen.unread == since.keys()
    committed = first_commit(connection, schema, since)
    assert committed is not None
    assert float(before) <= committed.timestamp() <= float(after)
