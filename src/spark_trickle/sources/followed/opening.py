"""An attached source -> the reader of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, cast

from spark_trickle.model.source import AttachedSource
from spark_trickle.sources.delta.source import DeltaOptions, DeltaSource, open_delta
from spark_trickle.sources.files.options import FilesOptions
from spark_trickle.sources.files.source import FilesSource, open_files
from spark_trickle.sources.followed.guarded import GuardedReader
from spark_trickle.sources.iceberg.opening import CAPABILITIES, open_iceberg
from spark_trickle.sources.iceberg.options import IcebergOptions
from spark_trickle.sources.interface import Capabilities, Configurable, SourceReader
from spark_trickle.sources.kafka.options import KafkaOptions, TopicOptions
from spark_trickle.sources.kafka.source import KafkaSource, open_kafka
from spark_trickle.sources.options import parse_options


@dataclass(frozen=True)
class SourceKind:
    """How sources of one type are opened: `options` is a dataclass of `sources/options`.

    If there are options of single tables, the source has a function `configure`, which is given them.
    """

    options: type[Any]
    open: Callable[[str, Any], SourceReader]
    capabilities: Capabilities
    table_options: type[Any] | None = None


KINDS: dict[str, SourceKind] = {
    "delta": SourceKind(DeltaOptions, open_delta, DeltaSource.capabilities),
    "files": SourceKind(FilesOptions, open_files, FilesSource.capabilities),
    "iceberg": SourceKind(IcebergOptions, open_iceberg, CAPABILITIES),
    "kafka": SourceKind(KafkaOptions, open_kafka, KafkaSource.capabilities, TopicOptions),
}


def open_source(name: str, kind: str, given: Mapping[str, str]) -> SourceReader:
    found = KINDS[kind]
    return GuardedReader(name, found.open(name, parse_options(found.options, given)))


def list_table_options(kind: str) -> tuple[str, ...]:
    """What may be said of a single table of a source."""
    known = KINDS[kind].table_options
    return () if known is None else tuple(f.name for f in fields(known))


def configure_table(source: SourceReader, kind: str, table: str, given: Mapping[str, str]) -> None:
    """Tell a source what was said of one of its tables."""
    known = KINDS[kind].table_options
    if known is not None:
        cast(Configurable, source).configure(table, parse_options(known, given))


@contextmanager
def open_attached(attached: AttachedSource) -> Iterator[SourceReader]:
    source = open_source(attached.name, attached.kind, attached.options)
    try:
        yield source
    finally:
        source.close()
