"""Random transactions of several writers, open across readings: copy plus changes is the table, at every moment."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from spark_trickle.sources.postgres.buffer import forget_changes, open_reading, read_changes
from spark_trickle.sources.postgres.compact import compact_buffer
from spark_trickle.sources.postgres.copy import copy_rows
from tests.postgres.mirror import SMALL, LogMirror, TriggerMirror, plus
from tests.postgres.world import World, total

SEEDS = range(int(os.environ.get("TRICKLE_TEST_SEEDS", "2")))
WRITERS = 4
STEPS = 120

TABLES = [
    "CREATE TABLE t (id int PRIMARY KEY, a text, big text, n numeric, tags text[])",
    "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE keyless (a int, b text)",
    "ALTER TABLE keyless REPLICA IDENTITY FULL",
    "CREATE TABLE parts (k int, a text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
    "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (50) TO (1000)",
    "INSERT INTO t SELECT g, 'a' || g, repeat('b', g * 500), g / 4.0, ARRAY['x', NULL, g::text] FROM generate_series(1, 20) g",
    "INSERT INTO keyless SELECT g % 3, 'k' FROM generate_series(1, 10) g",
    "INSERT INTO parts SELECT g, 'p' FROM generate_series(0, 99, 5) g",
]

TRUNCATING = "SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation >= 16384"


def statement(r: random.Random) -> str:
    """Something that an application may do; it may also fail."""
    low = r.randrange(30)
    high, other = low + r.randrange(1, 8), r.randrange(40)
    return r.choice([
        f"INSERT INTO t VALUES ({low}, 'new', repeat('{r.choice('xyz')}', {r.choice([1, 3000])}), {low}.50)",
        f"INSERT INTO t SELECT g, 'bulk' FROM generate_series({low + 30}, {high + 30}) g ON CONFLICT DO NOTHING",
        f"INSERT INTO t VALUES ({low}, 'up'), ({other + 50}, 'sert') ON CONFLICT (id) DO UPDATE SET a = excluded.a || t.a",
        f"UPDATE t SET a = a || '{r.choice('pqr')}' WHERE id BETWEEN {low} AND {high}",
        f"UPDATE t SET big = repeat('{r.choice('uvw')}', {r.choice([0, 10, 4000])}), n = n + 0.25 WHERE id = {low}",
        f"UPDATE t SET id = id + {r.choice([1, 100])} WHERE id BETWEEN {low} AND {high}",
        f"UPDATE t SET n = n, tags = tags WHERE id < {high}",
        f"DELETE FROM t WHERE id BETWEEN {low} AND {high}",
        f"DELETE FROM t WHERE id > 100 AND id % 3 = {low % 3}",
        f"MERGE INTO t USING (SELECT g FROM generate_series({low}, {high}) g) s ON t.id = s.g "
        "WHEN MATCHED AND g % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (g, 'merged in')",
        f"INSERT INTO keyless SELECT g % 3, '{r.choice('kl')}' FROM generate_series(1, {r.randrange(1, 5)}) g",
        f"UPDATE keyless SET a = a + 1 WHERE ctid IN (SELECT ctid FROM keyless WHERE a = {r.randrange(4)} LIMIT 2)",
        "UPDATE keyless SET b = 'm' WHERE a = 1",
        f"DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless LIMIT {r.randrange(4)})",
        f"INSERT INTO parts VALUES ({low * 3}, 'in') ON CONFLICT (k) DO UPDATE SET a = parts.a || '+'",
        f"UPDATE parts SET k = {r.randrange(1000)} WHERE k = {low * 3 // 5 * 5}",
        f"DELETE FROM parts WHERE k BETWEEN {low} AND {high}",
        f"TRUNCATE {r.choice(['t', 'keyless', 'keyless, t', 'parts', 'keyless'])}" if r.random() < 0.3 else "SELECT 1",
    ])  # fmt: skip


class Writer:
    """One connection with at most one transaction and some savepoints in it."""

    def __init__(self, world: World) -> None:
        self.connection = world.application()
        self.connection.execute("SET lock_timeout = 20")  # two of them may meet; who comes second gives up
        self.depth = 0

    def step(self, r: random.Random) -> None:
        try:
            self._step(r)
        except psycopg.Error:
            self.connection.execute("ROLLBACK")
            self.depth = 0

    def _step(self, r: random.Random) -> None:
        choice = r.random()
        if not self.depth:
            if choice < 0.6:
                self.connection.execute("BEGIN")
                self.depth = 1
            else:
                self.connection.execute(statement(r))
        elif choice < 0.1:
            self.connection.execute(r.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            self.depth = 0
        elif choice < 0.2:
            self.connection.execute(f"SAVEPOINT s{self.depth}")
            self.depth += 1
        elif choice < 0.3 and self.depth > 1:
            self.depth -= 1
            self.connection.execute(r.choice([f"ROLLBACK TO s{self.depth}", f"RELEASE s{self.depth}"]))
        else:
            self.connection.execute(statement(r))

    def end(self, r: random.Random) -> None:
        if self.depth:
            self.connection.execute(r.choice(["COMMIT", "ROLLBACK"]))
        self.depth = 0


def play(world: World, r: random.Random, poll: Callable[[], Any]) -> None:
    writers = [Writer(world) for _ in range(WRITERS)]
    for _ in range(STEPS):
        r.choice(writers).step(r)
        if r.random() < 0.15:
            poll()
    for writer in writers:
        writer.end(r)
    poll()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["statement", "row"])
def test_triggers(world: World, mode: str, seed: int) -> None:
    r = random.Random(seed)
    world.run(*TABLES)
    first = TriggerMirror(world, mode=mode)
    mirrors = [
        first,
        *(TriggerMirror(world, f"public.{n}", first.connection, mode=mode) for n in ("keyless", "parts")),
    ]

    def poll() -> None:
        """All mirrors to one moment, at which the tables themselves are looked at too."""
        with open_reading(first.connection) as moment:
            for m in mirrors:
                m.held = plus(
                    m.held, total(read_changes(m.connection, m.capture, m.columns, m.position, SMALL))
                )
                if not world.rows(TRUNCATING):  # whoever does keeps everybody out
                    assert m.held == total(copy_rows(m.connection, m.capture.source, m.columns))
                m.position = m.position.move_to(moment)
        for m in mirrors:
            match r.randrange(3):  # consumed rows may stay for a while
                case 0:
                    forget_changes(m.connection, m.capture, m.position)
                case 1:
                    compact_buffer(m.connection, m.capture, m.position)

    play(world, r, poll)
    for mirror in mirrors:
        mirror.poll()
        mirror.check()
        assert mirror.waiting() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_log(world: World, seed: int) -> None:
    r = random.Random(seed)
    world.run(*TABLES)
    mirror = LogMirror(world, "public.t", "public.keyless", "public.parts")

    def poll() -> None:
        if r.random() < 0.3:
            mirror.peek()  # and crash
        if r.random() < 0.3:
            mirror.commit(mirror.peek(r.choice([1, 10, 10_000])))  # and crash before the slot is told
        mirror.poll(r.choice([1, 10, 10_000]))

    play(world, r, poll)
    mirror.drain()
    mirror.check()
