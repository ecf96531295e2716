"""A published stream table -> the table that shows it, in whatever system its source is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.site import find_site
from spark_trickle.model.source import AttachedSource, Published
from spark_trickle.model.table import Table
from spark_trickle.refresh.identity import key_of
from spark_trickle.sources.kinds import POSTGRES
from spark_trickle.sources.link import Links
from spark_trickle.sources.postgres.options import read_options
from spark_trickle.sql.statements.kinds import Name
from spark_trickle.targets.delta.table import DeltaTarget
from spark_trickle.targets.interface import TargetTable
from spark_trickle.targets.postgres.table import PostgresTable
from spark_trickle.targets.postgres.target import Target
from spark_trickle.txn.work import Work

DELTA = "delta"
_SCHEMAS = {POSTGRES: "public", DELTA: ""}  # where a table is published whose name has one part


def choose_place(attached: AttachedSource, name: Name) -> tuple[str, str]:
    """The schema and the table that a name means there."""
    _require_kind(attached)
    if len(name) > (1 if attached.kind == DELTA else 2):
        form = "table" if attached.kind == DELTA else "schema.table"
        raise InvalidDefinitionError(f'"{".".join(name)}" has too many parts', f"Write AS {form}.")
    return (name[0] if len(name) == 2 else _SCHEMAS[attached.kind]), name[-1]


def _require_kind(attached: AttachedSource) -> None:
    if attached.kind not in _SCHEMAS:
        raise UnsupportedError(
            f'publishing to "{attached.name}", a source of type {attached.kind}',
            f"Publish to a source of type {' or '.join(_SCHEMAS)}.",
        )


@contextmanager
def open_target(
    work: Work, links: Links, table: Table, found: Published, role: str = "publish"
) -> Iterator[TargetTable]:
    """The published table while the block runs; `role` tells apart who may use one connection."""
    engine = work.place.warehouse.engine
    attached = sources.find_source(engine, found.source)
    _require_kind(attached)
    warehouse, site = sources.warehouse_id(engine), find_site(engine)
    if attached.kind == DELTA:
        yield DeltaTarget(
            f"{attached.options['path'].rstrip('/')}/{found.table}",
            table,
            warehouse,
            site,
            attached.name,
            key_of(work, table),
        )
        return
    columns = tuple(replace(c, nullable=True) for c in table.columns)
    target = Target(
        found.schema,
        found.table,
        table.full_name,
        columns,
        warehouse,
        key_of(work, table),
        site=site,
        source=found.source,
    )
    options = read_options(attached.options)
    with links.use_connection(attached.name, options, role) as connection:
        yield PostgresTable(connection, target)
