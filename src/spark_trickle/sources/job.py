"""One use of a source: its connection, its state, and commits that move it on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from spark_trickle.errors import SourceSchemaChangedError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.source import (
    AttachedSource,
    CaptureMode,
    Landed,
    MirrorState,
    SourceState,
    Transition,
)
from spark_trickle.model.table import Table
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable, describe_tables
from spark_trickle.sources.postgres.options import PostgresOptions
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.txn.work import Place, Work, now

_HISTORY = 50  # transitions that are remembered


@dataclass
class Job:
    """`source` is what the catalog says now; every landing brings it up to date."""

    place: Place
    connection: Connection
    source: AttachedSource
    options: PostgresOptions
    progress: Listen = ignore_progress
    registered: bool = False  # the source has confirmed that it serves this copy of the warehouse

    @property
    def log_name(self) -> str:
        """What the slot and the publication of a source are called; two warehouses never share them."""
        plain = re.sub(r"[^a-z0-9_]", "_", self.source.name.lower())[:20]
        mark = f"{int(self.source.attached.timestamp() * 1e6):x}"[-10:]
        return f"trickle_{plain}_{mark}"

    @property
    def state(self) -> SourceState:
        return self.source.state

    @property
    def by_log(self) -> bool:
        return self.state.capture is CaptureMode.WAL

    def find_mirrors(self, work: Work) -> list[tuple[Table, MirrorState]]:
        """The mirrors of this source with their states, by name."""
        with open_reader(self.place.warehouse.engine) as connection:
            states = sources.mirror_states(connection, self.source.name)
        found = [
            (t, states[t.id])
            for t in work.catalog.tables()
            if t.mirror is not None and t.mirror.source == self.source.name and t.id in states
        ]
        return sorted(found, key=lambda pair: pair[0].full_name)

    def read_remote(self, tables: Sequence[Table]) -> dict[int, SourceTable]:
        """The tables of the source that mirrors follow, as they are now, by the ids of the mirrors."""
        there = {t.oid: t for t in describe_tables(self.connection, [require_mirror(t).oid for t in tables])}
        return {t.id: there[require_mirror(t).oid] for t in tables if require_mirror(t).oid in there}

    def require_remote(self, table: Table) -> SourceTable:
        found = self.read_remote([table]).get(table.id)
        if found is None:
            raise SourceSchemaChangedError(require_mirror(table).full_name, ("it was dropped",))
        return found

    def read_source(self) -> None:
        """Take notice of what others have noted about the source."""
        self.source = sources.find_source(self.place.warehouse.engine, self.source.name)

    # --- moving on -------------------------------------------------------------------------------

    def commit_work(
        self,
        work: Work,
        message: str,
        states: Sequence[MirrorState] = (),
        state: SourceState | None = None,
        committed: datetime | None = None,
    ) -> int:
        """Land rows and positions together, or neither; the snapshot that holds them."""
        landed = Landed(self.source, state or self.state, tuple(states), committed)
        if work.empty:
            work.discard()
            self.source = sources.move_on(self.place.warehouse.engine, landed)
            return work.base.id
        work.state = replace(work.state, landed=landed)
        snapshot = work.commit(message)
        self.source = replace(self.source, version=self.source.version + 1, state=landed.state)
        return snapshot.id

    def note_state(self, state: SourceState, states: Sequence[MirrorState] = ()) -> None:
        """Change the state of the source alone."""
        landed = Landed(self.source, state, tuple(states))
        self.source = sources.move_on(self.place.warehouse.engine, landed)

    def change_capture(self, after: CaptureMode, reason: str) -> SourceState:
        """The state with another way of capturing, and a line in its history."""
        line = Transition(now().replace(microsecond=0), self.state.capture, after, reason)
        return replace(self.state, capture=after, history=(*self.state.history, line)[-_HISTORY:])
