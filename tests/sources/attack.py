"""A random walk over what happens between a PostgreSQL source and copies of a warehouse that mirrors it.

Changes, tiny or many times larger, killed syncs, copies, restores, moves, lost slots, switched-off triggers,
broken connections, restarts and crashes of the server, in any order. Whatever synchronises then holds exactly
what the source holds, and so does the table that it publishes; whatever is refused says why and what to do.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import spark_trickle
from spark_trickle.errors import TrickleError, WarehouseCopiedError
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of
from tests.postgres.server import Server
from tests.postgres.world import World
from tests.sources.conftest import DSN, Shop

TOTALS = "SELECT item, sum(n) AS n, count(*) AS c FROM sales GROUP BY item"
CRASH_POINTS = ("half_data", "after_data", "before_commit", "after_commit", "after_landing")
MOST_COPIES = 3


@dataclass
class Place:
    """A copy of the warehouse, and whether the published table is still its own."""

    folder: Path
    publishes: bool = True


@dataclass
class SourceAttack:
    home: Path
    server: Server
    mode: str
    random: random.Random
    places: list[Place] = field(default_factory=list)
    kept: list[Place] = field(default_factory=list)  # older states
    outcomes: Counter[str] = field(default_factory=Counter)
    world: World = field(init=False)
    numbers: int = 0
    highest: int = 30

    def __post_init__(self) -> None:
        self.world = World(self.server, "postgres")
        os.environ[DSN] = self.server.conninfo("postgres")

    # --- the walk --------------------------------------------------------------------------------

    def begin(self) -> None:
        place = Place(self._new_folder())
        self.world.run(
            "CREATE TABLE sales (id int PRIMARY KEY, item text, n int)",
            "INSERT INTO sales SELECT g, 'i' || g % 7, g FROM generate_series(1, 30) g",
        )
        with self._open(place) as shop:
            shop.attach(self.mode)
            shop.tr.create_mirror("sales", "shop.public.sales")
            shop.tr.create_stream_table("totals", TOTALS)
            shop.tr.publish("totals", "shop", "public.totals_live")
        self.places.append(place)
        self.check(place)

    def step(self) -> None:
        actions: list[Callable[[Place], None]] = [
            *[self.change] * 5,
            *[self.rest] * 2,
            self.kill_a_sync,
            self.put_aside,
            self.restore,
            self.clone,
            self.move,
            self.renew_identity,
            self.take_over,
            self.break_connections,
            self.restart,
            self.crash_server,
            self.lose_slots,
            self.write_without_triggers,
            self.widen,
            self.resync,
        ]
        action, place = self.random.choice(actions), self.random.choice(self.places)
        action(place)
        self.outcomes[action.__name__] += 1
        self.check(place)

    def check(self, place: Place) -> None:
        with self._open(place) as shop:
            try:
                shop.tr.sync("shop")
            except WarehouseCopiedError as refused:
                self.refused(refused)
                if self.random.random() < 0.7:
                    return
                shop.tr.sql("SYNC SOURCE shop TAKE OVER")
            self._compare(place, shop)

    def _compare(self, place: Place, shop: Shop) -> None:
        if shop.status("main.sales") == ("SCHEMA_CHANGED", 'column "n" has type bigint now'):
            self.outcomes["refused: SCHEMA_CHANGED"] += 1
            shop.tr.sql("RESYNC TABLE sales")
        shop.tr.refresh("totals")
        assert shop.status("main.sales")[0] == "ACTIVE", shop.status("main.sales")
        shop.check("SELECT * FROM sales")
        shop.check(TOTALS, "totals")
        if place.publishes:
            assert shop.there("SELECT * FROM totals_live") == shop.there(TOTALS)

    # --- the source ------------------------------------------------------------------------------

    def change(self, place: Place) -> None:
        for _ in range(self.random.choice([1, 1, 4])):
            self.world.run(*self._statements())

    def _statements(self) -> list[str]:
        r = self.random
        kind = r.choice(["insert", "insert", "update", "delete", "truncate", "nothing", "back and forth"])
        by, rest = r.choice([(2, 1), (97, 5), (1009, 3)])
        if kind == "insert":
            first, many = self.highest + 1, r.choice([1, 3, 3_000])
            self.highest += many
            rows = f"generate_series({first}, {self.highest})"
            return [f"INSERT INTO sales SELECT g, 'i' || g % 7, g % 1000 FROM {rows} g"]
        return {
            "update": [f"UPDATE sales SET n = n + 1 WHERE id % {by} = {rest}"],
            "delete": [f"DELETE FROM sales WHERE id % {by} = {rest}"],
            "truncate": ["TRUNCATE sales"] if r.random() < 0.3 else [],
            "nothing": ["BEGIN", "DELETE FROM sales", "ROLLBACK"],
            "back and forth": ["UPDATE sales SET n = n + 1", "UPDATE sales SET n = n - 1"],
        }[kind]

    def rest(self, place: Place) -> None:
        """Others write a lot, and our table nothing."""
        self.world.run(
            "CREATE TABLE IF NOT EXISTS other (id int)",
            "INSERT INTO other SELECT generate_series(1, 3000)",
            "SELECT pg_switch_wal()",
        )

    def break_connections(self, place: Place) -> None:
        with self._open(place) as shop:
            with self._tolerating():
                shop.tr.sync("shop")
            self.change(place)
            with self.server.connect("postgres") as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
                )
            shop.world = self._reconnect()
            with self._tolerating():
                shop.tr.sync("shop")
                self._compare(place, shop)

    def restart(self, place: Place, how: str = "fast") -> None:
        with self._open(place) as shop:
            with self._tolerating():
                shop.tr.sync("shop")
            self.server.stop(how)
            self.server.start()
            shop.world = self._reconnect()
            self.change(place)
            with self._tolerating():
                shop.tr.sync("shop")
                self._compare(place, shop)

    def crash_server(self, place: Place) -> None:
        self.restart(place, "immediate")

    def lose_slots(self, place: Place) -> None:
        slots = self.world.rows("SELECT slot_name FROM pg_replication_slots WHERE NOT active")
        for (slot,) in slots:
            self.world.run(f"SELECT pg_drop_replication_slot('{slot}')")
        self.change(place)

    def write_without_triggers(self, place: Place) -> None:
        self.world.run("ALTER TABLE sales DISABLE TRIGGER USER")
        self.change(place)
        self.world.run("ALTER TABLE sales ENABLE TRIGGER USER")

    def widen(self, place: Place) -> None:
        self.world.run("ALTER TABLE sales ALTER n TYPE bigint")
        self.change(place)

    # --- the warehouse ---------------------------------------------------------------------------

    def kill_a_sync(self, place: Place) -> None:
        self.change(place)
        point = self.random.choice(CRASH_POINTS)
        with self._open(place) as shop:
            shared = address_of(shop.tr.spark)
        with start({**shared, "SPARK_TRICKLE_CRASH_POINT": point}) as child:
            finish(child, Job(str(place.folder), None, ("SYNC SOURCE shop", "REFRESH STREAM TABLE totals")))

    def put_aside(self, place: Place) -> None:
        copy = replace(place, folder=self._new_folder())
        shutil.copytree(place.folder, copy.folder)
        self.kept.append(copy)

    def restore(self, place: Place) -> None:
        """An older state, of this copy or of another, takes its place."""
        if not self.kept:
            return
        older = self.random.choice(self.kept)
        shutil.rmtree(place.folder)
        shutil.copytree(older.folder, place.folder)
        place.publishes = older.publishes

    def clone(self, place: Place) -> None:
        if len(self.places) < MOST_COPIES:
            copy = replace(place, folder=self._new_folder())
            shutil.copytree(place.folder, copy.folder)
            self.places.append(copy)

    def move(self, place: Place) -> None:
        target = self._new_folder()
        place.folder.rename(target)
        place.folder = target

    def renew_identity(self, place: Place) -> None:
        with self._open(place) as shop:
            shop.tr.sql("ALTER WAREHOUSE RENEW IDENTITY")
        with self._open(place) as shop:
            shop.tr.sql("UNPUBLISH STREAM TABLE totals") if place.publishes else None
            place.publishes = False

    def take_over(self, place: Place) -> None:
        with self._open(place) as shop:
            shop.tr.sql("SYNC SOURCE shop TAKE OVER")
            self._compare(place, shop)

    def resync(self, place: Place) -> None:
        with self._open(place) as shop, self._tolerating():
            shop.tr.sql("RESYNC TABLE sales")

    # --- the parts -------------------------------------------------------------------------------

    def refused(self, error: TrickleError) -> None:
        assert "TAKE OVER" in str(error), error
        self.outcomes[f"refused: {error.code}"] += 1

    @contextmanager
    def _tolerating(self) -> Iterator[None]:
        """A second copy is refused; anything else is a failure of this walk."""
        try:
            yield
        except WarehouseCopiedError as refused:
            self.refused(refused)

    @contextmanager
    def _open(self, place: Place) -> Iterator[Shop]:
        with spark_trickle.connect(place.folder) as tr:
            yield Shop(self.world, tr, place.folder)

    def _reconnect(self) -> World:
        self.world = World(self.server, "postgres")
        return self.world

    def _new_folder(self) -> Path:
        self.numbers += 1
        return self.home / f"w{self.numbers}"


def run_source_attack(home: Path, server: Server, mode: str, seed: int, steps: int) -> Counter[str]:
    """So many steps; the answer counts what was done and refused."""
    attack = SourceAttack(home, server, mode, random.Random(seed))
    try:
        attack.begin()
        for _ in range(steps):
            attack.step()
        for place in attack.places:
            attack.check(place)
    finally:
        attack.world.clean()
    return attack.outcomes
