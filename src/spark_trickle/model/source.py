"""Attached sources and their mirrors as the catalog stores them, with the position of each mirror."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from spark_trickle.model.types import ColumnType, from_json, to_json


class CaptureMode(StrEnum):
    """How changes of a source reach us now."""

    TRIGGER = "TRIGGER"
    TRANSITIONING = "TRANSITIONING"  # triggers still, while the log is being made ready
    WAL = "WAL"


class MirrorStatus(StrEnum):
    COPYING = "COPYING"  # not visible yet: its first copy is under way, or was cut off
    ACTIVE = "ACTIVE"
    RESYNC_NEEDED = "RESYNC_NEEDED"  # changes were lost; the rows are the last exact ones
    SCHEMA_CHANGED = "SCHEMA_CHANGED"  # columns it needs are gone or others; the rows are the last exact ones


@dataclass(frozen=True)
class MirrorColumn:
    """A column here, and the one there that it follows: the number stays when that one is renamed."""

    column_id: int
    number: int
    type: int
    modifier: int


@dataclass(frozen=True)
class WrittenColumn:
    """A column of a table in place: under which name, and as which type, its files hold it.

    With a `field_id`, files are asked for that id instead, whatever they call the column, and for the ids of
    the parts of its type.
    """

    column_id: int
    name: str
    type: ColumnType
    field_id: int | None = None

    def to_json(self) -> list[Any]:
        own = [self.column_id, self.name, to_json(self.type)]
        return own if self.field_id is None else [*own, self.field_id]

    @classmethod
    def from_json(cls, value: list[Any]) -> WrittenColumn:
        id, name, kind, *more = value  # there were no field ids before Iceberg tables could be read
        return cls(id, name, from_json(kind), *more)


@dataclass(frozen=True)
class Mirror:
    """The table of a source that a table of ours is a copy of, or that it is itself, read in place."""

    source: str
    schema: str
    table: str
    oid: int
    columns: tuple[MirrorColumn, ...]
    known: int  # number of the newest column when it was last looked at
    as_text: tuple[str, ...] = ()
    chosen: bool = False  # only some columns were asked for
    becomes: tuple[str, str] | None = None  # the schema and name that it gets once its copy is whole
    written: tuple[WrittenColumn, ...] | None = None  # of a table in place
    lasting: tuple[tuple[int, str], ...] = ()  # what stays of each column if the source renames it
    part: str = ""  # what it tells of the mirror of the same table: its files, or its rejects
    identity: str = ""  # of the table there: another one was made again, and so were its columns
    options: tuple[tuple[str, str], ...] = ()  # what its kind of source has to know of the table

    @property
    def in_place(self) -> bool:
        return self.written is not None

    @property
    def full_name(self) -> str:
        return ".".join(part for part in (self.source, self.schema, self.table) if part)

    def to_json(self) -> dict[str, Any]:
        written = self.written and [w.to_json() for w in self.written]
        return {**asdict(replace(self, written=None)), "written": written}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Mirror:
        columns = tuple(MirrorColumn(**c) for c in value["columns"])
        becomes = tuple(value["becomes"]) if value["becomes"] else None
        written = value.get("written")  # not there before tables could be in place
        if written is not None:
            written = tuple(WrittenColumn.from_json(w) for w in written)
        own = {"columns": columns, "as_text": tuple(value["as_text"]), "becomes": becomes, "written": written}
        lasting = tuple((id, name) for id, name in value.get("lasting", ()))
        options = tuple((name, given) for name, given in value.get("options", ()))
        return cls(**{**value, **own, "lasting": lasting, "options": options})


@dataclass(frozen=True)
class Transition:
    """A change of the way in which a source is captured, or one that did not succeed."""

    at: datetime  # to the second
    before: CaptureMode
    after: CaptureMode
    reason: str

    def to_json(self) -> dict[str, str]:
        return {
            "at": self.at.isoformat(),
            "before": self.before.value,
            "after": self.after.value,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, value: dict[str, str]) -> Transition:
        at, before, after = datetime.fromisoformat(value["at"]), value["before"], value["after"]
        return cls(at, CaptureMode(before), CaptureMode(after), value["reason"])


@dataclass(frozen=True)
class Site:
    """Where a warehouse is: the machine, and its catalog there. A copy has the same id at another site."""

    host: str
    catalog: str

    def __str__(self) -> str:
        return f"{self.catalog} on {self.host}" if self.host else self.catalog


UNKNOWN_SITE = Site("", "")


@dataclass(frozen=True)
class SourceState:
    """How far a source is. `captured` lists what may carry triggers of ours, noted before they are made.

    `warehouse`, `epoch` and `consumed` are what the source itself has noted about us when it last gave us
    changes; what differs there was noted by another copy of this warehouse.
    """

    capture: CaptureMode = CaptureMode.TRIGGER
    slot: str = ""
    publication: str = ""
    lsn: int = 0  # what the log says up to here is in the mirrors
    captured: tuple[int, ...] = ()
    blocked: str = ""  # why the log is not used although it may
    attempts: int = 0
    retry_at: datetime | None = None
    error: str = ""
    synced: datetime | None = None  # to the second
    read_until: datetime | None = None  # by the clock there: what was committed before is in the mirrors
    read_snapshot: str = ""  # which transactions had ended there at that time
    history: tuple[Transition, ...] = ()
    warehouse: str = ""  # the id under which we are registered there
    epoch: int = 0  # grows when another copy of the warehouse takes over
    consumed: int = 0  # position in the log up to which changes were taken from the buffers

    def to_text(self) -> str:
        times = {name: _write_time(getattr(self, name)) for name in _TIMES}
        return json.dumps({**asdict(self), **times, "history": [t.to_json() for t in self.history]})

    @classmethod
    def from_text(cls, text: str) -> SourceState:
        value = json.loads(text)
        times = {name: _read_time(value.get(name, "")) for name in _TIMES}
        history = tuple(Transition.from_json(t) for t in value["history"])
        kept = {"capture": CaptureMode(value["capture"]), "captured": tuple(value["captured"])}
        return cls(**{**value, **times, **kept, "history": history})


_TIMES = ("retry_at", "synced", "read_until")


def _write_time(at: datetime | None) -> str:
    return at.isoformat() if at is not None else ""


def _read_time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True)
class AttachedSource:
    """A database that was attached. `version` grows with every landing, so that two cannot cross."""

    name: str
    kind: str
    options: Mapping[str, str]
    attached: datetime
    version: int = 0
    state: SourceState = field(default_factory=SourceState)


@dataclass(frozen=True)
class StoredPosition:
    """How far a mirror is, in words that only the reader of its kind of source understands."""

    text: str = "{}"


@dataclass(frozen=True)
class MirrorState:
    table_id: int
    source: str
    status: MirrorStatus
    reason: str = ""
    position: StoredPosition = StoredPosition()


@dataclass(frozen=True)
class Landed:
    """The part of a commit that moves a source on; it fails if another landing was faster."""

    source: AttachedSource
    state: SourceState
    mirrors: tuple[MirrorState, ...] = ()
    committed: datetime | None = None  # when the first of its transactions was, in the source


@dataclass(frozen=True)
class Published:
    """A stream table that is kept in a source too, and the snapshot that was last seen to be there."""

    table_id: int
    source: str
    schema: str
    table: str
    reached: int | None = None
    applied: datetime | None = None
    error: str = ""
    options: tuple[tuple[str, str], ...] = ()  # what was said when it was published
