"""A published table in PostgreSQL, behind the interface of all targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

from spark_trickle.model.source import Site
from spark_trickle.sources.link import Links
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.options import read_options
from spark_trickle.targets.interface import Applied, Publication, PublishedState, RowsToPublish, SnapshotStep
from spark_trickle.targets.postgres import front
from spark_trickle.targets.postgres.target import Target


@dataclass(frozen=True)
class PostgresTargetOptions:
    """There are none."""


@contextmanager
def open_postgres_table(
    publication: Publication, _: PostgresTargetOptions, links: Links, role: str
) -> Iterator[PostgresTable]:
    table, place = publication.table, publication.published
    target = Target(
        place.schema,
        place.table,
        table.full_name,
        tuple(replace(c, nullable=True) for c in table.columns),
        publication.warehouse,
        publication.key,
        site=publication.site,
        source=place.source,
    )
    options = read_options(publication.attached.options)
    with links.use_connection(publication.attached.name, options, role) as connection:
        yield PostgresTable(connection, target)


@dataclass(frozen=True)
class PostgresTable:
    connection: Connection
    target: Target

    @property
    def full_name(self) -> str:
        return self.target.full_name

    @property
    def key(self) -> tuple[str, ...]:
        return self.target.key

    @property
    def site(self) -> Site:
        return self.target.site

    def create(self) -> None:
        front.create_target(self.connection, self.target)

    def read_state(self) -> PublishedState:
        return front.read_state(self.connection, self.target)

    def has_rows(self) -> bool:
        return front.has_rows(self.connection, self.target)

    def apply(self, step: SnapshotStep, rows: RowsToPublish) -> Applied:
        deleted, inserted = rows.read_pieces(-1), rows.read_pieces(1)
        return front.apply_change(
            self.connection, self.target, step.after, step.upto, deleted, inserted, marks=step.marks
        )

    def repair(self, snapshot: int, rows: RowsToPublish, mark: str) -> Applied:
        return front.repair_rows(self.connection, self.target, snapshot, rows.read_pieces(1), mark=mark)

    def adopt(self) -> None:
        front.adopt_target(self.connection, self.target)

    def drop(self, keep: bool) -> None:
        front.drop_target(self.connection, self.target, keep)

    def refuse_copy(self, served: Site) -> NoReturn:
        front.refuse_copy(self.target, served)
