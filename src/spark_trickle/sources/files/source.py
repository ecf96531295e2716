"""A folder of files as a source: what is there now, to be loaded once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import ClassVar

from pyarrow.fs import FileType

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.arriving import ArrivingFile
from spark_trickle.sources.files.inspect import inspect_files
from spark_trickle.sources.files.listing import find_type, list_tables, look_again, mark_listing
from spark_trickle.sources.files.options import INFER, FilesOptions
from spark_trickle.sources.files.pattern import (
    TABLE,
    PathPattern,
    literal_file,
    literal_folder,
    parse_path,
)
from spark_trickle.sources.interface import (
    Arrivals,
    Capabilities,
    Change,
    Content,
    LoadedTable,
    RemoteTable,
    Version,
)


def open_files(name: str, options: FilesOptions) -> FilesSource:
    if not options.path:
        raise InvalidDefinitionError(
            f'the source "{name}" needs the path of its files', "Write OPTIONS (path '/data/in/*.json')."
        )
    if TABLE in options.path and TABLE not in options.path.split("/"):
        raise InvalidDefinitionError(
            f'{TABLE} is only a part of a name in the path "{options.path}"',
            f"A table is a folder: write '/data/{TABLE}/*.json'.",
        )
    options.refuse_others()
    options.refuse_bad_text()
    return FilesSource(options)


class FilesSource:
    """It is listed once for each use; the version of a table is a digest of what is there."""

    capabilities: ClassVar = Capabilities(in_place=False, loads=True)

    def __init__(self, options: FilesOptions) -> None:
        self._options = options
        self._most, self._settle = options.most, options.settle  # refused now if they are no numbers
        self._format = options.make_format()

    @cached_property
    def _pattern(self) -> PathPattern:
        path = self._options.path
        match FileType.NotFound if TABLE in path else find_type(path):
            case FileType.Directory:
                return literal_folder(path)
            case FileType.File:
                return literal_file(path)
        return parse_path(path)

    @cached_property
    def _tables(self) -> dict[str, tuple[ArrivingFile, ...]]:
        settled = datetime.now(UTC) - timedelta(seconds=self._settle) if self._settle else _NEVER
        return list_tables(self._pattern, settled)

    def discover(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        """A folder that is gone is one without files: its rows stay."""
        return {name: mark_listing(self._tables.get(name, ())) for name in tables}

    def describe(self, table: str, at: Version) -> RemoteTable | LoadedTable:
        schema = self._options.schema
        return LoadedTable(table, "" if schema.strip().lower() == INFER else schema)

    def read(self, table: str, at: Version) -> Content:
        return Arrivals(
            self._tables.get(table, ()),
            self._format,
            self._most,
            self._options.overwritten,
            self._options.evolve,
            partial(inspect_files, self._format),
            look_again,
        )

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        found = self.read(table, upto)
        assert isinstance(found, Arrivals)
        return found

    def release(self, upto: Mapping[str, Version]) -> None:
        """Files belong to whoever put them there."""

    def close(self) -> None:
        """No connection is kept."""


_NEVER = datetime.max.replace(tzinfo=UTC)
