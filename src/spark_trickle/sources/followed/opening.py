"""An attached source -> the reader of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from spark_trickle.model.source import AttachedSource
from spark_trickle.sources.delta.source import DeltaOptions, DeltaSource, open_delta
from spark_trickle.sources.files.options import FilesOptions
from spark_trickle.sources.files.source import FilesSource, open_files
from spark_trickle.sources.iceberg.opening import CAPABILITIES, open_iceberg
from spark_trickle.sources.iceberg.options import IcebergOptions
from spark_trickle.sources.interface import Capabilities, SourceReader
from spark_trickle.sources.options import parse_options


@dataclass(frozen=True)
class SourceKind:
    """How sources of one type are opened: `options` is a dataclass of `sources/options`."""

    options: type[Any]
    open: Callable[[str, Any], SourceReader]
    capabilities: Capabilities


KINDS: dict[str, SourceKind] = {
    "delta": SourceKind(DeltaOptions, open_delta, DeltaSource.capabilities),
    "files": SourceKind(FilesOptions, open_files, FilesSource.capabilities),
    "iceberg": SourceKind(IcebergOptions, open_iceberg, CAPABILITIES),
}


def open_source(name: str, kind: str, given: Mapping[str, str]) -> SourceReader:
    found = KINDS[kind]
    return found.open(name, parse_options(found.options, given))


@contextmanager
def open_attached(attached: AttachedSource) -> Iterator[SourceReader]:
    source = open_source(attached.name, attached.kind, attached.options)
    try:
        yield source
    finally:
        source.close()
