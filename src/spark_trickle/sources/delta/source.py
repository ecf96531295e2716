"""A folder of Delta tables as a source: read in place, version by version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyarrow import fs

from spark_trickle.errors import InvalidDefinitionError, SourceAddressError
from spark_trickle.lake.storage.addresses import open_address
from spark_trickle.sources.delta.actions import AddedFile, FileKey
from spark_trickle.sources.delta.columns import describe_table
from spark_trickle.sources.delta.file_groups import group_files
from spark_trickle.sources.delta.files import find_path, make_change_files, make_files
from spark_trickle.sources.delta.log import DeltaLog, TableSchema, VersionGoneError
from spark_trickle.sources.interface import (
    Capabilities,
    Change,
    Content,
    FileChange,
    FileContent,
    RemoteFile,
    RemoteTable,
    Resync,
    Version,
)
from spark_trickle.sources.options import option

_GO_ON = "Run SYNC SOURCE to go on from the newest version."


@dataclass(frozen=True)
class DeltaOptions:
    """Where the tables are."""

    path: str = option(
        "", "The folder of a Delta table, or one whose subfolders are Delta tables.", is_path=True
    )


def open_delta(name: str, options: DeltaOptions) -> DeltaSource:
    if not options.path:
        raise InvalidDefinitionError(
            f'the source "{name}" needs the path of its tables', "Write OPTIONS (path 's3://bucket/tables')."
        )
    return DeltaSource(options.path.rstrip("/") or "/")


class DeltaSource:
    """Delta keeps a log for each table: two tables never change in one commit."""

    capabilities: ClassVar = Capabilities(in_place=True)

    def __init__(self, address: str) -> None:
        self._address = address
        self._schemas: dict[tuple[str, int], TableSchema] = {}

    @cached_property
    def _tables(self) -> dict[str, DeltaLog]:
        """The log of each table by its name: the folder itself, or those in it."""
        own = DeltaLog(self._address)
        if own.exists():
            return {self._address.rpartition("/")[2]: own}
        filesystem, folder = open_address(self._address)
        try:
            found = filesystem.get_file_info(fs.FileSelector(folder))
        except OSError:
            raise SourceAddressError(
                f"the folder {self._address} cannot be read", "Check the path and your permission to read it."
            ) from None
        names = sorted(f.base_name for f in found if f.type == fs.FileType.Directory)
        logs = {name: DeltaLog(f"{self._address}/{name}") for name in names}
        return {name: log for name, log in logs.items() if log.exists()}

    def discover(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        found = {}
        for name in tables:
            log = self._tables.get(name)
            if log is not None and (versions := log.list_versions()):
                newest = max(versions)
                found[name] = f"{newest}@{log.mark_version(newest)}"
        return found

    def describe(self, table: str, at: Version) -> RemoteTable:
        return describe_table(table, self._read_schema(table, _number_of(at)).metadata)

    def read(self, table: str, at: Version) -> Content:
        number, log = _number_of(at), self._tables[table]
        schema = self._read_schema(table, number)
        try:
            files = log.read_files(number)
        except VersionGoneError as error:
            raise SourceAddressError(str(error), _GO_ON) from None
        return FileContent(make_files(log.address, schema.metadata, files))

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        log, first, last = self._tables[table], _number_of(after), _number_of(upto)
        if last <= first or log.mark_version(first) not in ("", after.partition("@")[2]):
            return Resync(f"the table was dropped and created again: its log ends with version {last}")
        try:
            groups = group_files(log.read_commits(first, last))
        except VersionGoneError as error:
            return Resync(str(error))
        metadata = self._read_schema(table, last).metadata

        def make(added: Iterable[AddedFile]) -> tuple[RemoteFile, ...]:
            return make_files(log.address, metadata, added)

        def list_paths(keys: Iterable[FileKey]) -> tuple[str, ...]:
            return tuple(find_path(log.address, path, vector) for path, vector in keys)

        return FileChange(
            make(groups.inserted),
            list_paths(groups.deleted),
            make(groups.rewritten),
            list_paths(groups.replaced),
            make(groups.moved_to),
            list_paths(groups.moved_from),
            make_change_files(log.address, groups.recorded),
        )

    def release(self, upto: Mapping[str, Version]) -> None:
        """Nothing to tell: VACUUM there goes by time."""

    def close(self) -> None:
        """No connection is kept."""

    def _read_schema(self, table: str, number: int) -> TableSchema:
        key = (table, number)
        if key not in self._schemas:
            try:
                self._schemas[key] = self._tables[table].read_schema(number)
            except VersionGoneError as error:
                raise SourceAddressError(str(error), _GO_ON) from None
            self._schemas[key].protocol.require_readable(table)
        return self._schemas[key]


def _number_of(version: Version) -> int:
    return int(version.partition("@")[0])
