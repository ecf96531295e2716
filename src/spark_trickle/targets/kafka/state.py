"""How far a topic is <-> the record of it in the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from spark_trickle.model.source import Site
from spark_trickle.targets.kafka.options import TopicFormat


@dataclass(frozen=True)
class TopicState:
    """A topic as our last transaction left it.

    `ends` is where each partition ended after it. If `disturbed`, somebody else wrote while it was open.
    """

    warehouse: str
    table: int  # the stream table's id
    stream: str
    host: str
    catalog: str
    format: TopicFormat
    key: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    topic: str = ""  # the id of the topic: one that is made again has another
    ends: Mapping[int, int] = field(default_factory=dict)
    snapshot: int | None = None
    mark: str = ""
    rows: int = 0
    inserted: int = 0
    deleted: int = 0
    applied: str = ""
    disturbed: bool = False
    kept: bool = False  # it is not published any more

    @property
    def site(self) -> Site:
        return Site(self.host, self.catalog)

    @property
    def applied_at(self) -> datetime | None:
        return datetime.fromisoformat(self.applied) if self.applied else None

    @property
    def owner(self) -> tuple[str, int]:
        return self.warehouse, self.table

    def move(self, snapshot: int, mark: str, inserted: int, deleted: int) -> TopicState:
        return replace(
            self,
            snapshot=snapshot,
            mark=mark,
            rows=self.rows + inserted - deleted,
            inserted=self.inserted + inserted,
            deleted=self.deleted + deleted,
            applied=datetime.now(UTC).isoformat(),
        )

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> TopicState:
        given = json.loads(data)
        own = {
            "format": TopicFormat(given["format"]),
            "key": tuple(given["key"]),
            "columns": tuple((name, kind) for name, kind in given["columns"]),
            "ends": {int(p): offset for p, offset in given["ends"].items()},
        }
        return cls(**{**given, **own})
