"""A published table, whatever system it is in: how far it is, and how it is moved on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn, Protocol

import pyarrow as pa

from spark_trickle.errors import RepairNeededError
from spark_trickle.model.source import AttachedSource, Published, Site
from spark_trickle.model.table import Table
from spark_trickle.spark.frames import Frame
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Publication:
    """A stream table, where it is to be shown, and by which warehouse at which site.

    `key` names the columns that tell its rows apart, if there are any.
    """

    table: Table
    published: Published
    attached: AttachedSource
    warehouse: str
    site: Site
    key: tuple[str, ...]


@dataclass(frozen=True)
class PublishedState:
    """A published table; `changes` says what others did to it, so that it can no longer be written."""

    schema: str
    name: str
    warehouse: str
    stream: str
    snapshot: int | None
    applied_at: datetime | None
    rows: int
    inserted: int
    deleted: int
    changes: tuple[str, ...] = ()
    site: Site | None = None
    mark: str = ""
    columns_behind: bool = False  # types have grown here, and the next push lets them grow there


@dataclass(frozen=True)
class Applied:
    """What became of a change; not `applied` if the table already was that far."""

    applied: bool
    snapshot: int
    inserted: int = 0
    deleted: int = 0


class RowsToPublish(Protocol):
    """The net change of a table, or all that it holds: each row with weight +1 or −1."""

    @property
    def work(self) -> Work: ...

    @property
    def table(self) -> Table: ...

    @property
    def most(self) -> int:
        """How many rows there are, at most."""

    @property
    def few(self) -> pa.Table | None:
        """All of them at the driver, if there is room for them."""

    @property
    def frame(self) -> Frame:
        """All of them, on the executors."""

    def read_pieces(self, weight: int) -> Iterator[pa.Table]:
        """Those that come (1) or go (-1), some at a time, without their weights."""


@dataclass(frozen=True)
class SnapshotStep:
    """From one snapshot to a later one, whose times are the marks; `after` None is the first fill."""

    after: int | None
    upto: int
    marks: tuple[str, str]


def require_step(name: str, snapshot: int | None, mark: str, step: SnapshotStep) -> None:
    """A change fits only the snapshot that it begins with, of the same history."""
    if mark and step.marks[0] and mark != step.marks[0]:
        raise RepairNeededError(name, f"it shows snapshot {step.after} of another history of the warehouse")
    if snapshot != step.after:
        at, begins = (
            "at no snapshot yet" if s is None else f"at snapshot {s}" for s in (snapshot, step.after)
        )
        raise RepairNeededError(name, f"it is {at}, but the change starts {begins}")


class TargetTable(Protocol):
    """One published table while it is used."""

    @property
    def full_name(self) -> str: ...

    @property
    def site(self) -> Site:
        """Where the warehouse is that writes it."""

    def create(self) -> None:
        """Make the table, empty and at no snapshot; doing it again changes nothing."""

    def read_state(self) -> PublishedState:
        """How far the table is, and what others did to it."""

    def has_rows(self) -> bool:
        """Whether it holds any row."""

    def apply(self, step: SnapshotStep, rows: RowsToPublish) -> Applied:
        """Move the table on in one transaction; doing it again does nothing."""

    def repair(self, snapshot: int, rows: RowsToPublish, mark: str) -> Applied:
        """Bring the table to exactly these rows, whatever it holds."""

    def adopt(self) -> None:
        """Let the warehouse at our site write the table from now on, and no other copy of it."""

    def drop(self, keep: bool) -> None:
        """Forget the table; with `keep` it stays as it is."""

    def refuse_copy(self, served: Site) -> NoReturn:
        """The table is written by a warehouse at another site."""
