"""One use of a source: its state in the catalog, and commits that move it on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.model.source import AttachedSource, Landed, MirrorState, SourceState, StoredPosition
from spark_trickle.model.table import Table
from spark_trickle.sources.followed.opening import configure_table, open_attached
from spark_trickle.sources.interface import SourceReader, Version
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.txn.work import Place, Work


@dataclass
class FollowJob:
    """`attached` is what the catalog says now; every commit brings it up to date."""

    place: Place
    attached: AttachedSource
    source: SourceReader

    @property
    def state(self) -> SourceState:
        return self.attached.state

    def find_tables(self, work: Work) -> list[tuple[Table, MirrorState]]:
        """The tables of this source with their states, by name."""
        with open_reader(self.place.warehouse.engine) as connection:
            states = sources.mirror_states(connection, self.attached.name)
        found = [(t, states[t.id]) for t in work.catalog.tables() if t.id in states]
        for table, _ in found:
            self.configure(require_mirror(table).table, dict(require_mirror(table).options))
        return sorted(found, key=lambda pair: pair[0].full_name)

    def configure(self, remote: str, options: Mapping[str, str]) -> None:
        configure_table(self.source, self.attached.kind, remote, options)

    def commit_work(
        self, work: Work, message: str, states: Sequence[MirrorState], state: SourceState | None = None
    ) -> int:
        """Land rows and versions together, or neither; the snapshot that holds them."""
        landed = Landed(self.attached, state or self.state, tuple(states))
        if work.empty:
            work.discard()
            self.attached = sources.move_on(self.place.warehouse.engine, landed)
            return work.base.id
        work.state = replace(work.state, landed=landed)
        crash_point("after_landing")
        snapshot = work.commit(message)
        self.attached = replace(self.attached, version=self.attached.version + 1, state=landed.state)
        return snapshot.id


@contextmanager
def use_followed(place: Place, name: str) -> Iterator[FollowJob]:
    attached = sources.find_source(place.warehouse.engine, name)
    with open_attached(attached) as source:
        yield FollowJob(place, attached, source)


def read_version(state: MirrorState) -> Version:
    return str(json.loads(state.position.text).get("version", ""))


def move_to_version(state: MirrorState, version: Version) -> MirrorState:
    return replace(state, position=StoredPosition(json.dumps({"version": version})))
