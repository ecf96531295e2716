"""A published stream table -> the table that shows it, in whatever system its source is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.site import find_site
from spark_trickle.model.source import AttachedSource, Published
from spark_trickle.model.table import Table
from spark_trickle.refresh.identity import key_of
from spark_trickle.sources.kinds import POSTGRES
from spark_trickle.sources.link import Links
from spark_trickle.sources.options import parse_options
from spark_trickle.sql.statements.kinds import Name
from spark_trickle.targets.delta.table import DeltaTargetOptions, open_delta_table
from spark_trickle.targets.iceberg.opening import IcebergTargetOptions, open_iceberg_table
from spark_trickle.targets.interface import Publication, TargetTable
from spark_trickle.targets.kafka.options import KafkaTargetOptions
from spark_trickle.targets.kafka.table import open_topic
from spark_trickle.targets.postgres.table import PostgresTargetOptions, open_postgres_table
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class TargetKind:
    """How stream tables are published to sources of one type.

    `form` is how a name there is written, and `place` the schema and the table that it means: None if it has
    too many parts. `options` is a dataclass of `sources/options`. `open` takes what of a publication is told
    apart by a role, since a connection serves one at a time.
    """

    form: str
    place: Callable[[Name], tuple[str, str] | None]
    options: type[Any]
    open: Callable[[Publication, Any, Links, str], AbstractContextManager[TargetTable]]


def _place_in_schema(name: Name) -> tuple[str, str] | None:
    if len(name) > 2:
        return None
    return (name[0] if len(name) == 2 else "public"), name[-1]


def _place_in_namespace(name: Name) -> tuple[str, str] | None:
    return ".".join(name[:-1]), name[-1]


def _place_in_folder(name: Name) -> tuple[str, str] | None:
    return ("", name[0]) if len(name) == 1 else None


def _place_among_topics(name: Name) -> tuple[str, str]:
    return "", ".".join(name)


TARGETS: dict[str, TargetKind] = {
    POSTGRES: TargetKind("schema.table", _place_in_schema, PostgresTargetOptions, open_postgres_table),
    "delta": TargetKind("table", _place_in_folder, DeltaTargetOptions, open_delta_table),
    "iceberg": TargetKind("namespace.table", _place_in_namespace, IcebergTargetOptions, open_iceberg_table),
    "kafka": TargetKind("topic", _place_among_topics, KafkaTargetOptions, open_topic),
}


def choose_place(attached: AttachedSource, name: Name) -> tuple[str, str]:
    """The schema and the table that a name means there."""
    kind = _require_kind(attached)
    if (found := kind.place(name)) is None:
        raise InvalidDefinitionError(f'"{".".join(name)}" has too many parts', f"Write AS {kind.form}.")
    return found


def check_options(attached: AttachedSource, given: Mapping[str, str]) -> None:
    parse_options(_require_kind(attached).options, given, "a published table")


def _require_kind(attached: AttachedSource) -> TargetKind:
    if attached.kind not in TARGETS:
        raise UnsupportedError(
            f'publishing to "{attached.name}", a source of type {attached.kind}',
            f"Publish to a source of type {' or '.join(TARGETS)}.",
        )
    return TARGETS[attached.kind]


@contextmanager
def open_target(
    work: Work, links: Links, table: Table, found: Published, role: str = "publish"
) -> Iterator[TargetTable]:
    """The published table while the block runs; `role` tells apart who may use one connection."""
    engine = work.place.warehouse.engine
    attached = sources.find_source(engine, found.source)
    kind = _require_kind(attached)
    publication = Publication(
        table, found, attached, sources.warehouse_id(engine), find_site(engine), key_of(work, table)
    )
    options = parse_options(kind.options, dict(found.options), "a published table")
    with kind.open(publication, options, links, role) as target:
        yield target
