"""What a published table notes with each of our commits: whose it is, and how far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from spark_trickle.errors import NotPublishedError, UnsupportedError
from spark_trickle.model.arrow import can_hold
from spark_trickle.model.source import Site
from spark_trickle.model.table import Table
from spark_trickle.targets.interface import Publication


@dataclass(frozen=True)
class TargetState:
    """How far a table is, as the last of our commits says."""

    snapshot: int | None
    mark: str
    host: str
    catalog: str
    rows: int = 0
    inserted: int = 0
    deleted: int = 0
    applied: str = ""
    key: tuple[str, ...] = ()
    kept: bool = False  # it is not published any more
    warehouse: str = ""  # … and the stream table, both empty in what old versions noted
    stream: str = ""
    stream_id: int = -1

    @property
    def site(self) -> Site:
        return Site(self.host, self.catalog)

    @property
    def applied_at(self) -> datetime | None:
        return datetime.fromisoformat(self.applied) if self.applied else None

    def move(self, snapshot: int, mark: str, inserted: int, deleted: int) -> TargetState:
        return replace(
            self,
            snapshot=snapshot,
            mark=mark,
            rows=self.rows + inserted - deleted,
            inserted=self.inserted + inserted,
            deleted=self.deleted + deleted,
            applied=datetime.now(UTC).isoformat(),
        )

    def settle_at(self, site: Site) -> TargetState:
        return replace(self, host=site.host, catalog=site.catalog)

    def to_text(self, **more: Any) -> str:
        return json.dumps({**asdict(self), **more})

    @classmethod
    def from_text(cls, text: str) -> TargetState:
        return cls.from_json(json.loads(text))

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> TargetState:
        return cls(**{**given, "key": tuple(given["key"])})


def start_state(publication: Publication) -> TargetState:
    """Of a table that shows no snapshot yet."""
    site, table = publication.site, publication.table
    return TargetState(
        None,
        "",
        site.host,
        site.catalog,
        key=publication.key,
        warehouse=publication.warehouse,
        stream=table.full_name,
        stream_id=table.id,
    )


def describe_owner(stream: str, warehouse: str) -> str:
    """The description of a table that we write."""
    return f"spark-trickle keeps the stream table {stream} of warehouse {warehouse} here"


def require_owner(publication: Publication, state: TargetState, full_name: str) -> None:
    """Refuse a table that shows another stream table.

    One of the same name may have another number: it was made again, or the warehouse was restored.
    """
    table = publication.table
    same = state.stream_id == table.id or state.stream == table.full_name
    if state.warehouse != publication.warehouse or not same:
        owner = describe_owner(state.stream, state.warehouse)
        raise NotPublishedError(table.full_name, full_name, f'"{owner}"')


def require_types(table: Table, target: str) -> None:
    for column in table.columns:
        if not can_hold(column.type):
            raise UnsupportedError(f'the type of column "{column.name}" in {target}', "Cast it in the query.")
