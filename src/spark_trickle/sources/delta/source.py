"""A folder of Delta tables as a source: read in place, version by version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyarrow import fs

from spark_trickle.errors import InvalidDefinitionError, SourceAddressError
from spark_trickle.lake.storage.addresses import explain_folder, open_address
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

_THREADS = 16  # that look at tables
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
        self._logs: dict[str, DeltaLog] = {}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The tables: the folder itself, or those in it."""
        with explain_folder(self._address):
            if DeltaLog(self._address).exists():
                return (self._own_name,)
            filesystem, folder = open_address(self._address)
            found = filesystem.get_file_info(fs.FileSelector(folder))
        names = sorted(f.base_name for f in found if f.type == fs.FileType.Directory)
        with ThreadPoolExecutor(_THREADS) as pool:
            there = pool.map(lambda name: DeltaLog(f"{self._address}/{name}").exists(), names)
            return tuple(name for name, exists in zip(names, there, strict=True) if exists)

    @property
    def _own_name(self) -> str:
        return self._address.rpartition("/")[2]

    def _find_log(self, table: str) -> DeltaLog:
        if table not in self._logs:
            self._find_version(table)
        return self._logs[table]

    def discover(self) -> tuple[str, ...]:
        return self._names

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = dict(zip(tables, pool.map(self._find_version, tables), strict=True))
        if not all(found.values()):
            self.discover()  # an error if it is the folder that is gone
        return {name: version for name, version in found.items() if version}

    def _find_version(self, table: str) -> Version:
        """Empty if there is no such table. No other one is looked at: a folder may have very many."""
        inner = f"{self._address}/{table}"
        for address in (self._address, inner) if table == self._own_name else (inner,):
            self._logs[table] = log = DeltaLog(address)
            if versions := log.list_versions():
                return f"{max(versions)}@{log.mark_version(max(versions))}"
        return ""

    def describe(self, table: str, at: Version) -> RemoteTable:
        return describe_table(table, self._read_schema(table, _number_of(at)).metadata)

    def read(self, table: str, at: Version) -> Content:
        number, log = _number_of(at), self._find_log(table)
        schema = self._read_schema(table, number)
        try:
            files = log.read_files(number)
        except VersionGoneError as error:
            raise SourceAddressError(str(error), _GO_ON) from None
        return FileContent(make_files(log.address, schema.metadata, files))

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        log, first, last = self._find_log(table), _number_of(after), _number_of(upto)
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
                self._schemas[key] = self._find_log(table).read_schema(number)
            except VersionGoneError as error:
                raise SourceAddressError(str(error), _GO_ON) from None
            self._schemas[key].protocol.require_readable(table)
        return self._schemas[key]


def _number_of(version: Version) -> int:
    return int(version.partition("@")[0])
