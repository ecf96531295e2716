"""A stream table as the catalog stores it, and the report of a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model import types
from spark_trickle.model.execution import Execution
from spark_trickle.model.schedule import Schedule, parse_schedule
from spark_trickle.model.stream_options import StreamOptions, read_stream_options
from spark_trickle.model.types import ColumnType


class Mode(StrEnum):
    """How a stream table is refreshed."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    IMMEDIATE = "IMMEDIATE"


def read_mode(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise InvalidDefinitionError(
            f'there is no refresh mode "{text.upper()}"', f"The refresh modes are {', '.join(Mode)}."
        ) from None


class Action(StrEnum):
    """What a refresh did."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"


class Initiator(StrEnum):
    """Who asked for a refresh."""

    MANUAL = "manual"  # a statement or a call
    SCHEDULER = "scheduler"
    IMMEDIATE = "immediate"  # the commit that changed a source


class Status(StrEnum):
    INITIALIZING = "INITIALIZING"  # defined, but not filled yet
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"  # the last refresh failed; the rows are those of the refresh before
    SUSPENDED = "SUSPENDED"  # the scheduler leaves it alone until it is resumed
    FUSED = "FUSED"  # a change was larger than its fuse allows


@dataclass(frozen=True)
class ColumnUse:
    """A column of a source that a stream table uses: its name in the plan, its id and its type then."""

    name: str
    column_id: int
    type: str  # as SQL has it


@dataclass(frozen=True)
class Source:
    """A table that a stream table reads, with the columns it knew when the query was bound."""

    table_id: int
    columns: tuple[ColumnUse, ...]  # only those that it uses
    name: tuple[str, str] | None = None  # its schema and name then

    @property
    def full_name(self) -> str:
        """What to call a table that is there no more."""
        return ".".join(self.name) if self.name is not None else f"table {self.table_id}"


@dataclass(frozen=True)
class KnownTable:
    """A table under the name, and with the columns, that it had when a text that reads it was bound."""

    table_id: int
    schema: str
    name: str
    columns: tuple[tuple[int, str, ColumnType], ...]  # id, name, type of all that it had then


@dataclass(frozen=True)
class KnownNames:
    """What one text means by the names of tables: the query of a stream table, or a view that it reads."""

    view_id: int | None  # None: the query itself
    tables: tuple[KnownTable, ...]


@dataclass(frozen=True)
class Stream:
    """The definition of a stream table; its plan is text that only the engine reads."""

    query: str
    home: str  # schema of unqualified names
    mode: Mode
    schedule: str | None
    options: StreamOptions
    sources: tuple[Source, ...]
    nodes: tuple[int, ...]  # tables of the inner nodes, in order
    plan: str
    moments: tuple[str, ...] = ()  # functions in it whose value depends on when they are asked
    time_zone: str = ""  # of the session that made it, where its rows depend on it
    views: tuple[tuple[int, str], ...] = ()  # ids and names of the views that are part of it
    known: tuple[KnownNames, ...] = ()  # what its texts call the tables and columns that they read

    @cached_property
    def timing(self) -> Schedule:
        """What its schedule means."""
        return parse_schedule(self.schedule)

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "home": self.home,
            "mode": self.mode.value,
            "schedule": self.schedule,
            "options": self.options.to_texts(),
            "moments": list(self.moments),
            "sources": [_source_to_json(s) for s in self.sources],
            "nodes": list(self.nodes),
            "plan": self.plan,
            "time_zone": self.time_zone,
            "views": [list(v) for v in self.views],
            "known": [_names_to_json(k) for k in self.known],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Stream:
        options: dict[str, str] = value["options"]  # older definitions have the moments in there
        return cls(
            query=value["query"],
            home=value["home"],
            mode=Mode(value["mode"]),
            schedule=value["schedule"],
            options=read_stream_options({k: v for k, v in options.items() if k != "moments"}),
            sources=tuple(_source_from_json(*parts) for parts in value["sources"]),
            nodes=tuple(value["nodes"]),
            plan=value["plan"],
            moments=tuple(value.get("moments", options.get("moments", "").split())),
            time_zone=value.get("time_zone", ""),
            views=tuple((i, name) for i, name in value.get("views", ())),
            known=tuple(_names_from_json(*parts) for parts in value.get("known", ())),
        )


def _source_to_json(source: Source) -> list[Any]:
    return [source.table_id, [[c.name, c.column_id, c.type] for c in source.columns], source.name]


def _source_from_json(
    table_id: int, columns: list[tuple[str, int, str]], name: list[str] | None = None
) -> Source:
    used = tuple(ColumnUse(*parts) for parts in columns)
    return Source(table_id, used, (name[0], name[1]) if name else None)


def _names_to_json(names: KnownNames) -> list[Any]:
    tables = [
        [t.table_id, t.schema, t.name, [[i, n, types.to_json(kind)] for i, n, kind in t.columns]]
        for t in names.tables
    ]
    return [names.view_id, tables]


def _names_from_json(view_id: int | None, tables: list[Any]) -> KnownNames:
    found = (
        KnownTable(i, schema, name, tuple((c, n, types.from_json(kind)) for c, n, kind in columns))
        for i, schema, name, columns in tables
    )
    return KnownNames(view_id, tuple(found))


@dataclass(frozen=True)
class Frontier:
    """The snapshots up to which a stream table knows its sources.

    They differ after a commit that moved stream tables on together: what they read of each other
    is known up to that commit, what they read of other tables only up to the snapshot before it.
    """

    tables: int
    streams: int


@dataclass(frozen=True)
class StreamState:
    """Where a stream table stands: it is exact as of the snapshot `frontier`."""

    table_id: int
    frontier: int | None
    status: Status
    error: str | None = None
    errors_in_a_row: int = 0
    streams_frontier: int | None = None
    retry_at: datetime | None = None

    @property
    def knows(self) -> Frontier | None:
        if self.frontier is None:
            return None
        return Frontier(self.frontier, max(self.frontier, self.streams_frontier or 0))


GIVEN_UP = "given_up"  # the phase of a change that turned out to be more than everything


@dataclass(frozen=True)
class RefreshReport:
    """What one refresh did, why, and how long each part of it took."""

    name: str
    action: Action  # DIFFERENTIAL, FULL, REINITIALIZE or NO_DATA
    reason: str
    rows_inserted: int = 0
    rows_deleted: int = 0
    delta_rows: int = 0  # changed source rows that were read
    duration_ms: float = 0.0
    snapshot: int = 0  # the one with the new rows; the newest if there was nothing to do
    phases: Mapping[str, float] = field(default_factory=dict)  # milliseconds, by phase
    source_rows: int = 0  # rows of all sources
    apply: str = ""  # append, compact or replace, and why; empty if no row changed


@dataclass(frozen=True)
class Run:
    """What an earlier refresh cost."""

    action: Action
    delta_rows: int
    source_rows: int
    duration_ms: float
    compact_ms: float = 0.0  # to merge files afterwards, which not every refresh has to
    given_up_ms: float = 0.0  # of its duration, for a change that turned out to be more than everything
    result_rows: int = 0  # that came and went
    number: int = 0  # of the refreshes of its stream table

    @property
    def total_ms(self) -> float:
        return self.duration_ms - self.given_up_ms + self.compact_ms


@dataclass(frozen=True)
class Occasion:
    """Why a refresh happens now: who asked, and in what company."""

    initiated_by: Initiator = Initiator.MANUAL
    together: bool = False  # with the stream tables it reads, in one commit
    at_commit: bool = False  # inside the commit of a statement that changes its sources: that is its frontier
    waited_ms: float | None = None  # from the first change to this refresh
    fused: bool = True  # a fuse may stop it


@dataclass(frozen=True)
class Refreshed:
    """The part of a commit that moves a stream table on; it fails if another refresh was faster."""

    table_id: int
    expected: int | None
    frontier: int
    report: RefreshReport
    started: datetime
    occasion: Occasion
    executions: tuple[Execution, ...] = ()
    outside: tuple[int, ...] = ()  # what it reads and takes to be known up to this commit, which others make
