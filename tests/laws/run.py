"""A history on the warehouse and on the oracle, compared after every step and over all snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

import spark_trickle
from spark_trickle.session import Trickle
from tests.laws.author import ROW_KINDS, STEP_KINDS
from tests.laws.history import TABLE, History, Shape, Statement, Step, Transaction, Upkeep
from tests.laws.oracle import Bag, LakeClient, Oracle, Outcome, bag_of

_CHANGES_OF_A_ROW = (["insert"], ["delete"], ["update_preimage", "update_postimage"])


@dataclass
class Tally:
    """What a test really did, so that one that did nothing does not pass."""

    steps: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)

    def require_everything(self) -> None:
        lazy = [kind for kind in STEP_KINDS if not self.steps[kind]]
        # a kind that ran only a few times may have met no row
        idle = [kind for kind in ROW_KINDS if self.steps[kind] >= 8 and not self.changed[kind]]
        blind = [what for what in ("content", "snapshot", "lake", "feed") if not self.compared[what]]
        assert not lazy + idle + blind, f"never ran: {lazy}, changed no row: {idle}, compared no row: {blind}"
        assert self.steps["compaction"], "no table ever compacted itself"


def content_of(tr: Trickle) -> Bag:
    return bag_of(tr.sql(f"SELECT * FROM {TABLE}").toArrow())


def feed_of(tr: Trickle, after: int) -> Bag:
    """What changed since a snapshot: rows, each with how it changed."""
    return bag_of(tr.changes(TABLE, after).drop("_commit_version", "_commit_timestamp").toArrow())


def feed_sum(tr: Trickle, after: int) -> Bag:
    """What the changes since a snapshot come to."""
    found: Bag = Counter()
    for row, times in feed_of(tr, after).items():
        found[row[:-1]] += times if row[-1] in ("'insert'", "'update_postimage'") else -times
    return Counter({row: n for row, n in found.items() if n})


@dataclass(frozen=True)
class Moment:
    """What a snapshot must hold; `kept` is the oracle's copy of it."""

    shape: Shape
    bag: Bag
    kept: str


@dataclass
class Run:
    history: History
    folder: Path
    limit: int  # max_driver_rows
    lake: LakeClient
    tally: Tally
    moments: dict[int, Moment] = field(default_factory=dict)
    alters: list[tuple[int, str]] = field(default_factory=list)
    shape: Shape = field(init=False)
    oracle: Oracle = field(init=False)
    tr: Trickle = field(init=False)

    def play(self) -> None:
        """All steps, then all laws; a failure shows the history."""
        self.oracle = Oracle(self.history.shape)
        self.tr = self._connect()
        at = -1
        try:
            self._create()
            for at, step in enumerate(self.history.steps):  # noqa: B007
                self._step(step)
            at += 1
            self._finish()
        except Exception as error:
            text = f"{type(error).__name__}: {error}\nat step {at} with max_driver_rows = {self.limit} of\n"
            raise AssertionError(text + self.history.script()) from error
        finally:
            self.tr.close()
            self.oracle.close()

    def _connect(self) -> Trickle:
        settings = {**self.history.settings, "max_driver_rows": self.limit}
        return spark_trickle.connect(self.folder, settings=settings)

    # --- steps -------------------------------------------------------------------------------------

    def _create(self) -> None:
        self.tr.sql(self.history.shape.create.spark)
        self.shape = self.history.shape
        self._remember()

    def _step(self, step: Step) -> None:
        self.tally.steps[step.kind] += 1
        match step:
            case Statement():
                self._statement(step)
                if step.defines:
                    self.alters.append((self.tr.snapshot, step.text.duck))
            case Transaction():
                self._transaction(step)
            case Upkeep("reconnect"):
                self.tr.close()
                self.tr = self._connect()
            case Upkeep():
                self.tr.sql(step.text)
        self._compare("content", self._rows(self.tr.sql(f"SELECT * FROM {TABLE}")), self.oracle.bag())
        self._remember()

    def _statement(self, statement: Statement) -> bool:
        """Run it on both; they agree on the counts, or on the refusal. Whether it was done."""
        due = self.oracle.run(statement)
        if due.refused:
            self._refused(statement, due)
            return False
        row = self.tr.sql(statement.text.spark).collect()[0]
        counts = (row.rows_inserted, row.rows_updated, row.rows_deleted)
        assert counts == due.counts, f"{statement.kind} reports {counts}, the oracle {due.counts}"
        self.tally.changed[statement.kind] += sum(counts)
        self.shape = statement.shape
        return True

    def _refused(self, statement: Statement, due: Outcome) -> None:
        try:
            self.tr.sql(statement.text.spark)
        except due.refused:
            self.tally.refused[statement.kind] += 1
        else:
            raise AssertionError(f"{statement.kind} must fail with {due.refused}: {statement.text.spark}")

    def _transaction(self, transaction: Transaction) -> None:
        """Its own changes are seen inside; after ROLLBACK nothing of them is left."""
        before, kept = self.shape, self.oracle.save()
        self.tr.sql("BEGIN")
        for statement in transaction.statements:
            self._statement(statement)
            self._compare("content", self._rows(self.tr.sql(f"SELECT * FROM {TABLE}")), self.oracle.bag())
        self.tr.sql(transaction.end)
        if transaction.commit:
            alters = [s.text.duck for s in transaction.statements if s.defines]
            first = max(self.moments) + 1
            self.alters += [(first, text) for text in alters]
        else:
            self.oracle.restore(kept)
            self.shape = before

    # --- comparing ---------------------------------------------------------------------------------

    def _rows(self, frame: DataFrame, shape: Shape | None = None) -> Bag:
        names = (shape or self.shape).names
        assert tuple(frame.columns) == names, f"columns {frame.columns} instead of {names}"
        return bag_of(frame.toArrow())

    def _compare(self, what: str, found: Bag, due: Bag) -> None:
        self.tally.compared[what] += due.total()
        assert found == due, f"{what}: too many {dict(found - due)}, missing {dict(due - found)}"

    def _remember(self) -> None:
        """Every new snapshot has the content of now: what follows a commit by itself is compaction."""
        newest = self.tr.snapshot
        new = range(max(self.moments, default=0) + 1, newest + 1)
        if new:
            moment = Moment(self.shape, self.oracle.bag(), self.oracle.save())
            self.moments |= dict.fromkeys(new, moment)
            self.tally.steps["compaction"] += len(new) - 1

    # --- laws over the whole history -----------------------------------------------------------------

    def _finish(self) -> None:
        retained = [r.snapshot_id for r in self.tr.sql("SELECT * FROM trickle.snapshots()").collect()]
        versions = [v for v in retained if v in self.moments]
        assert max(versions) == max(self.moments), "the newest snapshot is gone"
        self._check_snapshots(versions)
        self._check_count()
        self._check_feed(versions)

    def _check_snapshots(self, versions: list[int]) -> None:
        for version in versions:
            moment = self.moments[version]
            frame = self.tr.sql(f"SELECT * FROM {TABLE} VERSION AS OF {version}")
            self._compare("snapshot", self._rows(frame, moment.shape), moment.bag)
            self._compare("lake", self.lake.bag(self.folder, version), moment.bag)

    def _check_count(self) -> None:
        (row,) = self.tr.sql("SELECT row_count FROM trickle.tables()").collect()
        assert row.row_count == self.oracle.bag().total(), f"trickle.tables() counts {row.row_count} rows"

    def _check_feed(self, versions: list[int]) -> None:
        """L2 for every commit, and so for every range; and a range of the feed is that part of the whole."""
        oldest, newest = min(versions), max(versions)
        feed = self._feed(f"trickle.changes('{TABLE}', {oldest}, {newest})")
        self._check_labels(feed)
        sums: dict[int, Bag] = {v: Counter() for v in versions}
        for row, times in feed.items():
            weight = -times if "delete" in row[-2] or "preimage" in row[-2] else times
            sums[int(row[-1])][row[:-2]] += weight
        before: Bag = Counter()
        for version, now in self._in_columns_of_today(versions):
            due = Counter(now)
            due.subtract(before)
            if version > oldest:
                self.tally.compared["feed"] += sum(abs(n) for n in due.values())
                assert sums[version] == due, f"feed of commit {version}: {sums[version]} instead of {due}"
            before = now
        self._check_range(feed, versions)

    def _feed(self, source: str) -> Bag:
        frame = self.tr.sql(f"SELECT * FROM {source}")
        assert tuple(frame.columns[:-3]) == self.shape.names
        return bag_of(frame.drop("_commit_timestamp").toArrow())

    def _in_columns_of_today(self, versions: list[int]) -> Iterator[tuple[int, Bag]]:
        """Older contents as ALTER TABLE would have left them."""
        for version in versions:
            with self.oracle.as_it_was(self.moments[version].kept):
                for altered, text in self.alters:
                    if altered > version:
                        self.oracle.define(text)
                yield version, self.oracle.bag()

    def _check_range(self, feed: Bag, versions: list[int]) -> None:
        third = len(versions) // 3
        after, upto = versions[third], versions[-1 - third]
        if after < upto:
            part = self._feed(f"{TABLE} CHANGES FROM VERSION {after} EXCLUSIVE TO VERSION {upto} INCLUSIVE")
            due = Counter({r: n for r, n in feed.items() if after < int(r[-1]) <= upto})
            self._compare("feed", part, due)

    def _check_labels(self, feed: Bag) -> None:
        """In a commit, updates come in two images; with a key, each row is in one change only."""
        if self.shape.keyed and not self.shape.enforced:
            return  # several rows may share a key, so which of them became which cannot be told
        ids = [self.shape.names.index(i) for i in self.shape.ids] if self.shape.unique else []
        groups: dict[tuple[str, ...], Counter[str]] = {}
        for row, times in feed.items():
            group = (row[-1], *(row[i] for i in ids))
            groups.setdefault(group, Counter())[row[-2].strip("'")] += times
        for group, labels in groups.items():
            one = any(labels == Counter(kinds) for kinds in _CHANGES_OF_A_ROW)
            pairs = labels["update_preimage"] == labels["update_postimage"]
            assert one if ids else pairs, f"commit and key {group} are labelled {dict(labels)}"
