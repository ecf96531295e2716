"""A random walk over what happens to warehouses: work, copies, restores, losses, kills and wrong clocks.

Each step ends in *exact* or in *a clear refusal*: whatever opens shows what it showed at that snapshot, and
whatever does not says why. What is right is kept in plain Python, for each copy of the warehouse.

    python -m tests.attack --minutes 60 --seed 7
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import spark_trickle
from spark_trickle.errors import TrickleError
from spark_trickle.session import Trickle, maintenance
from spark_trickle.txn import work
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of

SETTINGS = {
    "max_driver_rows": 300,
    "orphan_hours": 0.0,
    "compact_change_files": 6,
    "block_source_ddl": False,
}
CRASH_POINTS = (
    "half_data",
    "after_data",
    "after_files",
    "before_commit",
    "after_commit",
    "vacuum_half_deleted",
)


@dataclass(frozen=True)
class State:
    """What a warehouse holds at a snapshot: rows by id, and what the second column is called."""

    rows: frozenset[tuple[int, int]] = frozenset()
    column: str = "v"

    def groups(self) -> Counter[tuple[int, int, int]]:
        """What the stream table must show."""
        counts, sums = Counter(v % 5 for _, v in self.rows), Counter[int]()
        for _, v in self.rows:
            sums[v % 5] += v
        return Counter((group, n, sums[group]) for group, n in counts.items())


History = dict[int, State]  # by snapshot


@dataclass
class Place:
    """A copy of the warehouse: where it is, and what it held at each of its snapshots."""

    folder: Path
    history: History

    @property
    def state(self) -> State:
        return self.history[max(self.history)]


@dataclass
class Wrong:
    """A clock that goes forwards and backwards by days."""

    shift: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.shift


@dataclass
class Attack:
    home: Path
    random: random.Random
    places: list[Place] = field(default_factory=list)
    kept: list[tuple[Path, History]] = field(default_factory=list)  # catalogs that were put aside
    backups: dict[str, tuple[Path, History]] = field(default_factory=dict)
    clock: Wrong = field(default_factory=Wrong)
    outcomes: Counter[str] = field(default_factory=Counter)
    numbers: int = 0

    # --- the walk --------------------------------------------------------------------------------

    def begin(self) -> None:
        place = Place(self._new_folder(), {})
        with self._open(place) as tr:
            tr.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)")
            tr.sql(
                "CREATE STREAM TABLE s AS SELECT v % 5 AS g, count(*) AS n, sum(v) AS total FROM t GROUP BY 1"
            )
            place.history[tr.snapshot] = State()
        self.places.append(place)

    def step(self) -> None:
        place = self.random.choice(self.places)
        actions: list[Callable[[Place], None]] = [
            *[self.change] * 6,
            *[self.tidy] * 2,
            self.kill_a_writer,
            self.put_catalog_aside,
            self.clone,
            self.back_up,
            self.restore_elsewhere,
            self.restore_in_place,
            self.bring_older_catalog,
            self.lose_catalog,
            self.lose_log,
            self.lose_file,
            self.lose_data,
            self.move,
            self.share_data_folder,
            self.renew_identity,
            self.jump_in_time,
        ]
        action = self.random.choice(actions)
        action(place)
        self.outcomes[action.__name__] += 1
        self.check(place)

    def check(self, place: Place) -> None:
        """Exact, at whatever snapshot the catalog says."""
        with self._open(place) as tr:
            self._compare(place, tr)

    def _compare(self, place: Place, tr: Trickle) -> None:
        state = place.history[tr.snapshot]
        assert rows_of(tr, "t") == Counter(state.rows), place.folder
        tr.refresh("s")
        place.history[tr.snapshot] = state
        assert rows_of(tr, "s") == state.groups(), place.folder
        problems = [r for r in tr.answer("verify").dicts() if r["severity"] == "error"]
        assert not problems, problems

    # --- work --------------------------------------------------------------------------------------

    def change(self, place: Place) -> None:
        with self._open(place) as tr:
            statement, state = self._statement(place.state)
            if self.random.random() < 0.15:
                with rolled_back(tr):
                    tr.sql(statement)
                return
            tr.sql(statement)
            place.history[tr.snapshot] = state

    def _statement(self, state: State) -> tuple[str, State]:
        """A statement, and what it leads to; changes are tiny or many times larger."""
        r, c = self.random, state.column
        rows = dict(state.rows)
        kind = r.choice(["insert", "insert", "update", "delete", "truncate", "rename", "widen"])
        if kind == "insert":
            first, many = max(rows, default=0) + 1, r.choice([1, 3, 2_000])
            new = {first + n: (first + n) * 7 % 1000 for n in range(many)}
            sql = f"INSERT INTO t SELECT id, int(id * 7 % 1000) FROM range({first}, {first + many})"
            return sql, replace(state, rows=frozenset({**rows, **new}.items()))
        if kind in ("update", "delete"):
            by, rest = r.choice([(2, 1), (97, 5), (1009, 3)])
            if kind == "update":
                changed = {k: v + 1 if k % by == rest else v for k, v in rows.items()}
                sql = f"UPDATE t SET {c} = {c} + 1 WHERE id % {by} = {rest}"
            else:
                changed = {k: v for k, v in rows.items() if k % by != rest}
                sql = f"DELETE FROM t WHERE id % {by} = {rest}"
            return sql, replace(state, rows=frozenset(changed.items()))
        if kind == "truncate" and r.random() < 0.3:
            return "TRUNCATE TABLE t", replace(state, rows=frozenset())
        if kind == "rename":
            name = "w" if c == "v" else "v"
            return f"ALTER TABLE t RENAME COLUMN {c} TO {name}", replace(state, column=name)
        return f"ALTER TABLE t ALTER COLUMN {c} TYPE BIGINT", state

    def tidy(self, place: Place) -> None:
        with self._open(place) as tr:
            state = place.state
            for statement in ("OPTIMIZE t", "VACUUM RETAIN 0 HOURS"):
                planned = tr.sql(f"{statement} DRY RUN").collect() if "VACUUM" in statement else []
                tr.sql(statement)
                assert not any(Path(row.path).exists() for row in planned)
                place.history[tr.snapshot] = state

    def kill_a_writer(self, place: Place) -> None:
        """It dies somewhere on its way: the statement happened, or it did not."""
        with self._open(place) as tr:
            statement, state = self._statement(place.state)
            shared, before, old = address_of(tr.spark), tr.snapshot, place.state
        point = self.random.choice(CRASH_POINTS)
        sql = "VACUUM RETAIN 0 HOURS" if point.startswith("vacuum") else statement
        with start({**shared, "SPARK_TRICKLE_CRASH_POINT": point}) as child:
            finish(child, Job(str(place.folder), None, (sql,), SETTINGS))
        with self._open(place) as tr:
            done = tr.snapshot > before and sql == statement
            place.history[tr.snapshot] = state if done else old

    # --- copies ------------------------------------------------------------------------------------

    def clone(self, place: Place) -> None:
        """A copy of the whole folder, also while a connection is open."""
        if len(self.places) > 3:
            return
        copy = Place(self._new_folder(), dict(place.history))
        with self._open(place):
            shutil.copytree(place.folder, copy.folder)
        self.check(copy)
        self.places.append(copy)

    def move(self, place: Place) -> None:
        target = self._new_folder()
        place.folder.rename(target)
        place.folder = target

    def back_up(self, place: Place) -> None:
        store = self.home / f"store {place.folder.name}"
        with self._open(place) as tr:
            try:
                done = tr.backup(str(store), link=self.random.random() < 0.5)
            except TrickleError as refused:  # it is another warehouse by now
                self.refused(refused, "holds backups of warehouse")
                return
        self.backups[f"{store}/{done.name}"] = store, dict(place.history)

    def restore_elsewhere(self, place: Place) -> None:
        if not self.backups or len(self.places) > 3:
            return
        name, (store, history) = self.random.choice(sorted(self.backups.items()))
        copy = Place(self._new_folder(), dict(history))
        spark_trickle.restore(store, copy.folder, name=Path(name).name)
        self.check(copy)
        self.places.append(copy)

    def restore_in_place(self, place: Place) -> None:
        if not self.backups:
            return
        name, (store, history) = self.random.choice(sorted(self.backups.items()))
        try:
            spark_trickle.restore(store, place.folder, name=Path(name).name, replace=True)
        except TrickleError as refused:  # a backup of another copy
            self.refused(refused, "belongs to warehouse")
            return
        place.history = dict(history)

    def put_catalog_aside(self, place: Place) -> None:
        target = self.home / f"kept {len(self.kept)}"
        target.mkdir()
        for path in place.folder.glob("catalog.sqlite*"):
            if "before-restore" not in path.name:
                shutil.copy(path, target)
        self.kept.append((target, dict(place.history)))

    # --- losses ------------------------------------------------------------------------------------

    def bring_older_catalog(self, place: Place) -> None:
        """Of this copy or of another, as somebody might who restores by hand."""
        if not self.kept:
            return
        source, history = self.random.choice(self.kept)
        with self._set_aside(place):
            for path in source.iterdir():
                shutil.copy(path, place.folder)
            self._survives(place, history)

    def lose_catalog(self, place: Place) -> None:
        with self._set_aside(place):
            self._survives(place, {})

    def lose_log(self, place: Place) -> None:
        """The catalog without its -wal file, as it was while somebody worked."""
        with self._open(place) as tr:
            tr.sql("INSERT INTO t VALUES (-1, 1)")
            tr.sql("DELETE FROM t WHERE id = -1")
            place.history[tr.snapshot] = place.state
            main = self.home / "main file"
            shutil.copy(place.folder / "catalog.sqlite", main)
        with self._set_aside(place):
            shutil.copy(main, place.folder / "catalog.sqlite")
            self._survives(place, place.history)

    def lose_file(self, place: Place) -> None:
        files = sorted((place.folder / "data").rglob("*.parquet"))
        if not files:
            return
        file = self.random.choice(files)
        file.rename(self.home / "lost")
        try:
            with self._open(place) as tr:
                try:
                    assert rows_of(tr, "t") == Counter(place.history[tr.snapshot].rows)
                except TrickleError as refused:
                    self.refused(refused, "is missing")
        finally:
            (self.home / "lost").rename(file)

    def lose_data(self, place: Place) -> None:
        """The data folder is not mounted."""
        (place.folder / "data").rename(self.home / "away")
        try:
            self._survives(place, {})
        finally:
            shutil.rmtree(place.folder / "data", ignore_errors=True)
            (self.home / "away").rename(place.folder / "data")

    def share_data_folder(self, place: Place) -> None:
        """Another catalog on the same files: a new one, or that of another copy."""
        other = self.random.choice(self.places)
        where = self._new_folder() if other is place else other.folder
        try:
            with spark_trickle.connect(where, data_path=str(place.folder / "data"), settings=SETTINGS) as tr:
                # The copy has not diverged: the files are its own too, until one of both goes on.
                assert rows_of(tr, "t") == Counter(other.history[tr.snapshot].rows)
        except TrickleError as refused:
            self.refused(refused, "does not match the catalog")

    def renew_identity(self, place: Place) -> None:
        with self._open(place) as tr:
            tr.sql("ALTER WAREHOUSE RENEW IDENTITY")

    def jump_in_time(self, place: Place) -> None:
        self.clock.shift = timedelta(days=self.random.choice([-400, -1, 0, 0, 3, 40]))

    # --- the parts ---------------------------------------------------------------------------------

    def _survives(self, place: Place, history: History) -> None:
        """An attacked warehouse is refused, or it shows what that catalog showed at its snapshot."""
        try:
            tr = spark_trickle.connect(place.folder, settings=SETTINGS)
        except TrickleError as refused:
            self.refused(refused, "")
            if history and self.random.random() < 0.5:
                self._adopt(place, history)
            return
        with tr:
            assert rows_of(tr, "t") == Counter(history[tr.snapshot].rows)

    def _adopt(self, place: Place, history: History) -> None:
        """Somebody insists: then it shows what it showed, and VACUUM takes nothing that it does not know.

        What it knows is kept, however wrong the clock is: the newer catalog comes back after this.
        """
        before = set((place.folder / "data").rglob("*.parquet"))
        try:
            tr = spark_trickle.connect(place.folder, settings=SETTINGS, adopt=True)
        except TrickleError as refused:
            self.refused(refused, "are not in it")
            return
        with tr:
            tr.sql("VACUUM RETAIN 1000000 HOURS")
            assert rows_of(tr, "t") == Counter(history[tr.snapshot].rows)
        assert before - set((place.folder / "data").rglob("*.parquet")) == set()

    @contextmanager
    def _set_aside(self, place: Place) -> Iterator[None]:
        """The catalog is gone for a while; afterwards it is back, and so is the marker of its data."""
        aside = self.home / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        shutil.copytree(place.folder / "data" / "_trickle", aside / "_trickle")
        for path in place.folder.glob("catalog.sqlite*"):
            shutil.move(path, aside)
        try:
            yield
        finally:
            for path in place.folder.glob("catalog.sqlite*"):
                path.unlink()
            for path in aside.glob("catalog.sqlite*"):
                shutil.move(path, place.folder)
            shutil.rmtree(place.folder / "data" / "_trickle")
            shutil.copytree(aside / "_trickle", place.folder / "data" / "_trickle")

    def refused(self, error: TrickleError, words: str) -> None:
        assert words in str(error), error
        assert error.hint.endswith("."), error
        assert "Please report" not in error.hint, error
        self.outcomes[f"refused: {error.code}"] += 1

    @contextmanager
    def _open(self, place: Place) -> Iterator[Trickle]:
        with spark_trickle.connect(place.folder, settings=SETTINGS) as tr:
            yield tr

    def _new_folder(self) -> Path:
        self.numbers += 1
        return self.home / f"w{self.numbers}"


@contextmanager
def rolled_back(tr: Trickle) -> Iterator[None]:
    tr.sql("BEGIN")
    yield
    tr.sql("ROLLBACK")


def rows_of(tr: Trickle, table: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in tr.table(table).collect())


@contextmanager
def wrong_clock(clock: Wrong) -> Iterator[None]:
    """Commits, leases and VACUUM see the clock of the attack."""
    before = work.now
    work.now = maintenance.now = clock.now  # type: ignore[assignment]
    try:
        yield
    finally:
        work.now = maintenance.now = before  # type: ignore[assignment]


def run_attack(
    home: Path, seed: int, steps: int | None = None, seconds: float = float("inf")
) -> Counter[str]:
    """So many steps, or as many as there is time for; the answer counts what was done and refused."""
    attack = Attack(home, random.Random(seed))
    end = time.monotonic() + seconds
    done = 0
    with wrong_clock(attack.clock):
        attack.begin()
        while (steps is None or done < steps) and time.monotonic() < end:
            attack.step()
            done += 1
        attack.clock.shift = timedelta()
        for place in attack.places:
            attack.check(place)
    return attack.outcomes
