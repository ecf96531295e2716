"""A stream table as the records of a topic: one transaction for each step, never half of one.

Read in order, the records tell the stream table of each snapshot that was published: each puts `after` in the
place of `before`. The transaction carries the state of the topic into the ledger, so whoever begins to write,
and thereby ends what a dead process left open, reads there what was reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import NoReturn

from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    RepairNeededError,
    SourceBusyError,
    TargetExistsError,
    UnsupportedError,
    WarehouseCopiedError,
)
from spark_trickle.model.source import Site
from spark_trickle.model.types import sql_name
from spark_trickle.sources.kafka.client import Client
from spark_trickle.sources.kafka.offsets import Offsets
from spark_trickle.sources.kafka.options import KafkaOptions
from spark_trickle.sources.kafka.records import Record
from spark_trickle.sources.link import Links
from spark_trickle.sources.options import parse_options
from spark_trickle.targets.interface import (
    Applied,
    Publication,
    PublishedState,
    RowsToPublish,
    SnapshotStep,
    require_step,
)
from spark_trickle.targets.kafka.changes import KeyChange, read_changes
from spark_trickle.targets.kafka.drift import find_drift, find_settled_ends, note_ends
from spark_trickle.targets.kafka.envelope import Provenance, choose_hearer, choose_teller
from spark_trickle.targets.kafka.held import hold_rows
from spark_trickle.targets.kafka.images import ImageWriter, RowImage
from spark_trickle.targets.kafka.ledger import TopicLedger
from spark_trickle.targets.kafka.options import KafkaTargetOptions, TopicFormat
from spark_trickle.targets.kafka.state import TopicState
from spark_trickle.targets.kafka.topics import create_topic, delete_topic, require_topic_name
from spark_trickle.targets.kafka.transaction import TopicWriter
from spark_trickle.targets.kafka.values import require_types
from spark_trickle.targets.rows import AllRows

_UNKNOWN = "its ledger is gone"


@contextmanager
def open_topic(
    publication: Publication, options: KafkaTargetOptions, _links: Links, _role: str
) -> Iterator[TopicTarget]:
    given = parse_options(KafkaOptions, publication.attached.options)
    yield TopicTarget(publication, options, Client(given))


@dataclass(frozen=True)
class Move:
    """From a state, in a topic that ends there, to a snapshot; `mark` is its time."""

    before: TopicState
    ends: Offsets
    upto: int
    mark: str


@dataclass(frozen=True)
class TopicTarget:
    publication: Publication
    options: KafkaTargetOptions
    client: Client

    @property
    def full_name(self) -> str:
        return self.publication.published.table

    @property
    def site(self) -> Site:
        return self.publication.site

    @property
    def _key(self) -> tuple[str, ...]:
        return self.publication.key

    @property
    def _columns(self) -> tuple[tuple[str, str], ...]:
        return tuple((c.name, sql_name(c.type)) for c in self.publication.table.columns)

    @property
    def _owner(self) -> tuple[str, int]:
        return self.publication.warehouse, self.publication.table.id

    @cached_property
    def _ledger(self) -> TopicLedger:
        return TopicLedger(self.client, self.full_name)

    @property
    def _images(self) -> ImageWriter:
        return ImageWriter(self.publication.table.columns, self._key)

    # --- making and forgetting -------------------------------------------------------------------

    def create(self) -> None:
        require_topic_name(self.full_name)
        self._require_form()
        self._require_ours(self._ledger.read_state())
        with self._open_writer() as writer:
            self._create_topic()
            self._ledger.create(self.options.replica_count)
            state = self._ledger.read_state()
            ends = find_settled_ends(self.client, self.full_name)
            assert ends is not None
            if state is None or state.owner != self._owner or state.topic != ends.topic:
                self._note(writer, replace(self._new_state, topic=ends.topic, ends=ends.next))
            elif state.kept:  # its records have the keys and columns that they had
                self._note(writer, replace(self._own(state), snapshot=None, mark="", kept=False))

    def _require_form(self) -> None:
        require_types(self.publication.table.columns)
        if self.options.format is TopicFormat.UPSERT and not self._key:
            raise UnsupportedError(
                f'the format upsert for "{self.publication.table.full_name}", whose rows no key tells apart',
                "Group by a key or keep the key of its source, or choose the format 'debezium'.",
            )

    def _require_ours(self, state: TopicState | None) -> None:
        """A topic with records of somebody else is none of our business."""
        ends = self.client.find_ends([self.full_name], committed=False).get(self.full_name)
        has_records = ends is not None and self._has_records(ends)
        if state is None:
            if has_records:
                raise TargetExistsError(self.full_name, "it has records that spark-trickle did not write")
            return
        if state.owner != self._owner:
            if has_records or (ends is not None and not state.kept):
                owner = f'the stream table "{state.stream}" of warehouse {state.warehouse}'
                raise TargetExistsError(self.full_name, f"spark-trickle keeps {owner} there")
            return
        if not state.kept and state.site != self.site:
            self.refuse_copy(state.site)
        if has_records and state.format is not self.options.format:
            raise InvalidDefinitionError(
                f'the records of the topic "{self.full_name}" have the format {state.format}',
                "Choose this format, or another topic.",
            )

    def _has_records(self, ends: Offsets) -> bool:
        earliest = self.client.find_earliest(self.full_name, sorted(ends.next))
        return any(end > earliest.get(p, 0) for p, end in ends.next.items())

    def _create_topic(self) -> None:
        """Rows that are told apart by a key may be compacted, if they stand there alone."""
        if self.full_name in self.client.find_ends([self.full_name]):
            return
        compact = {"cleanup.policy": "compact"} if self.options.format is TopicFormat.UPSERT else {}
        create_topic(
            self.client, self.full_name, self.options.partition_count, self.options.replica_count, compact
        )

    @property
    def _new_state(self) -> TopicState:
        return TopicState(
            *self._owner,
            self.publication.table.full_name,
            self.site.host,
            self.site.catalog,
            self.options.format,
            self._key,
            self._columns,
        )

    def _describe_now(self, before: TopicState) -> TopicState:
        """What was counted so far, of a table as it is now."""
        rows, inserted, deleted = before.rows, before.inserted, before.deleted
        return replace(self._new_state, rows=rows, inserted=inserted, deleted=deleted)

    def adopt(self) -> None:
        with self._open_writer() as writer:
            self._note(writer, self._own(self._require_state()))

    def _own(self, state: TopicState) -> TopicState:
        return replace(state, host=self.site.host, catalog=self.site.catalog)

    def drop(self, keep: bool) -> None:
        with self._open_writer() as writer:
            state = self._ledger.read_state()
            if keep:
                self._ledger.create(self.options.replica_count)
                self._note(writer, replace(state or self._new_state, kept=True))
                return
            delete_topic(self.client, self.full_name)
            self._ledger.drop()

    def refuse_copy(self, served: Site) -> NoReturn:
        raise WarehouseCopiedError(
            f'the topic "{self.full_name}" is written by',
            str(served),
            str(self.site),
            f"SYNC SOURCE {self.publication.attached.name} TAKE OVER",
        )

    def _note(self, writer: TopicWriter, state: TopicState) -> None:
        """A state that no row goes with."""
        with writer.open_transaction():
            writer.send(self._ledger.name, self._ledger.make_message(state))

    @contextmanager
    def _open_writer(self) -> Iterator[TopicWriter]:
        """From here on no other process writes the topic, and nothing that one of them left is open."""
        warehouse, table = self._owner
        name = f"spark-trickle-{warehouse}-{table}"
        yield TopicWriter(self.client, self.full_name, name, self.options.longest)

    # --- looking ---------------------------------------------------------------------------------

    def read_state(self) -> PublishedState:
        """Without a writer, so that one who only looks stops nobody."""
        while True:
            state = self._ledger.read_state()
            changes = self._find_changes(state)
            if not changes or state == self._ledger.read_state():  # else a push went on meanwhile
                return self._describe(state, changes)

    def _find_changes(self, state: TopicState | None) -> tuple[str, ...]:
        if state is None:
            return (_UNKNOWN,)
        if state.owner != self._owner:
            owner = f'the stream table "{state.stream}" of warehouse {state.warehouse}'
            raise NotPublishedError(self.publication.table.full_name, self.full_name, owner)
        committed = self.client.find_ends([self.full_name])
        end = self.client.find_ends([self.full_name], committed=False)
        return find_drift(
            self.client, self.full_name, state, committed.get(self.full_name), end.get(self.full_name)
        )

    def _describe(self, state: TopicState | None, changes: tuple[str, ...]) -> PublishedState:
        """Of a topic that the ledger does not know, we still know what we reached."""
        known = state or replace(self._new_state, snapshot=self.publication.published.reached)
        return PublishedState(
            "",
            self.full_name,
            known.warehouse,
            known.stream,
            None if known.kept else known.snapshot,
            known.applied_at,
            known.rows,
            known.inserted,
            known.deleted,
            changes,
            known.site,
            known.mark,
            columns_behind=known.columns != self._columns,
        )

    def has_rows(self) -> bool:
        ends = self.client.find_ends([self.full_name]).get(self.full_name)
        return ends is not None and self._has_records(ends)

    def _require_state(self) -> TopicState:
        state = self._ledger.read_state()
        if state is None:
            raise RepairNeededError(self.full_name, _UNKNOWN)
        return state

    # --- moving on -------------------------------------------------------------------------------

    def apply(self, step: SnapshotStep, rows: RowsToPublish) -> Applied:
        self._require_form()
        with self._open_writer() as writer:
            state = self._require_state()
            if state.site != self.site:
                self.refuse_copy(state.site)
            if state.snapshot is not None and state.snapshot >= step.upto:
                return Applied(False, state.snapshot)
            if state.snapshot is not None and (step.after is None or state.snapshot > step.after):
                raise SourceBusyError(
                    f'another process moved the topic "{self.full_name}" on to snapshot {state.snapshot}',
                    "The next push goes on from there.",
                )
            require_step(self.full_name, state.snapshot, state.mark, step)
            ends = find_settled_ends(self.client, self.full_name)
            if changes := find_drift(self.client, self.full_name, state, ends, ends):
                raise RepairNeededError(self.full_name, "; ".join(changes))
            assert ends is not None
            move = Move(state, ends, step.upto, step.marks[1])
            if self._needs_new_images(state):
                return self._write_difference(writer, move, AllRows(rows.work, rows.table))
            if step.after is None:
                return self._write(writer, move, self._list_new(rows), "r")
            return self._write(writer, move, read_changes(rows, self._images, self._key), "c")

    def _needs_new_images(self, state: TopicState) -> bool:
        """Whether a row may have another key now than in the records that told of it."""
        if state.columns == self._columns and state.key == self._key:
            return False
        before, now = dict(state.columns), dict(self._columns)
        return not self._key or state.key != self._key or any(before.get(n) != now[n] for n in self._key)

    def _list_new(self, rows: RowsToPublish) -> Iterator[KeyChange]:
        return (KeyChange(image.key, None, image.row) for image in self._read_images(rows))

    def _read_images(self, rows: RowsToPublish) -> Iterator[RowImage]:
        return chain.from_iterable(self._images.write_rows(piece) for piece in rows.read_pieces(1))

    def repair(self, snapshot: int, rows: RowsToPublish, mark: str) -> Applied:
        self._require_form()
        with self._open_writer() as writer:
            self._create_topic()
            self._ledger.create(self.options.replica_count)
            state = self._ledger.read_state() or self._new_state
            if state.site != self.site:
                self.refuse_copy(state.site)
            ends = find_settled_ends(self.client, self.full_name)
            assert ends is not None
            return self._write_difference(writer, Move(state, ends, snapshot, mark), rows)

    def _write_difference(self, writer: TopicWriter, move: Move, rows: RowsToPublish) -> Applied:
        """What the topic tells becomes what the table holds; rows under keys of another kind go first."""
        before = move.before
        with hold_rows(choose_hearer(before.format), bool(before.key)) as held:
            for record in self._read_topic(move.ends):
                held.note(record)
            if bool(before.key) == bool(self._key):
                found = held.compare(self._read_images(rows))
            else:
                found = chain(held.list_all(), self._list_new(rows))
            return self._write(writer, move, found, "r", rows.most)

    def _read_topic(self, ends: Offsets) -> Iterator[Record]:
        earliest = self.client.find_earliest(self.full_name, sorted(ends.next))
        begin = {p: min(earliest.get(p, 0), end) for p, end in ends.next.items()}
        for piece in self.client.read_records(self.full_name, begin, ends.next):
            yield from piece

    def _write(
        self, writer: TopicWriter, move: Move, changes: Iterable[KeyChange], new: str, rows: int | None = None
    ) -> Applied:
        """All of a step in one transaction, and in it what the ledger is to say."""
        tell = choose_teller(
            self.options.format,
            Provenance(self._owner[0], self.publication.table, move.upto, move.mark, datetime.now(UTC)),
            new,
            self.options.tombstones and bool(move.before.key),
        )
        inserted = deleted = 0
        with writer.open_transaction() as delivered:
            for change in changes:
                inserted += change.after is not None
                deleted += change.before is not None
                for message in tell(change):
                    writer.send(self.full_name, message)
            writer.flush()
            state = note_ends(self._describe_now(move.before), move.ends, delivered)
            state = state.move(move.upto, move.mark, inserted, deleted)
            if rows is not None:
                state = replace(state, rows=rows)
            writer.send(self._ledger.name, self._ledger.make_message(state))
        return Applied(True, move.upto, inserted, deleted)
