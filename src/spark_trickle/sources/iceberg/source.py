"""An Iceberg catalog as a source: its tables are read in place, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_trickle.errors import (
    OutsideFileError,
    SourceAddressError,
    TableNotFoundError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.sources.iceberg.catalog import IcebergCatalog
from spark_trickle.sources.iceberg.changes import HistoryLostError, TouchedFiles, find_touched, list_between
from spark_trickle.sources.iceberg.columns import describe_table
from spark_trickle.sources.iceberg.deletes import DeleteContents, DeleteIndex, leave_out_dangling
from spark_trickle.sources.iceberg.files import find_path, make_file, make_files
from spark_trickle.sources.iceberg.manifests import FileKind, ListedFile, Manifests
from spark_trickle.sources.iceberg.opening import CAPABILITIES
from spark_trickle.sources.iceberg.options import IcebergOptions
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

_UNREADABLE = "unreadable"  # the version of a table whose metadata we cannot read
_GO_ON = "Run SYNC SOURCE to go on from the newest snapshot."


@dataclass(frozen=True)
class _Point:
    """A version: a snapshot, the schema that counted then, and the table, which may be made anew."""

    snapshot: int | None  # none was made yet
    schema: int
    table: str

    @classmethod
    def parse(cls, text: Version) -> _Point:
        place, _, table = text.partition("@")
        snapshot, _, schema = place.partition("/")
        return cls(int(snapshot) if snapshot else None, int(schema), table)

    def __str__(self) -> str:
        snapshot = "" if self.snapshot is None else self.snapshot
        return f"{snapshot}/{self.schema}@{self.table}"


class IcebergSource:
    """Each table has snapshots of its own: two tables never change in one commit."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES

    def __init__(self, name: str, options: IcebergOptions) -> None:
        self._catalog = IcebergCatalog(name, options)
        self._tables: dict[str, Table] = {}
        self._unreadable: dict[str, TrickleError] = {}
        self._manifests: dict[str, Manifests] = {}
        self._contents = DeleteContents()

    def discover(self) -> tuple[str, ...]:
        return self._catalog.list_tables()

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        found = {}
        for name in tables:
            try:
                table = self._catalog.load_table(name)
            except (UnsupportedError, SourceAddressError) as error:  # it does not stop the others
                self._unreadable[name], found[name] = error, _UNREADABLE
                continue
            if table is not None:
                self._tables[name] = table
                now = table.metadata
                point = _Point(now.current_snapshot_id, now.current_schema_id, str(now.table_uuid))
                found[name] = str(point)
        return found

    def describe(self, table: str, at: Version) -> RemoteTable:
        if at == _UNREADABLE:
            raise self._unreadable[table]
        point = _Point.parse(at)
        return describe_table(table, self._find_schema(table, point), point.table)

    def read(self, table: str, at: Version) -> Content:
        if at == _UNREADABLE:
            raise self._unreadable[table]
        point = _Point.parse(at)
        return FileContent(self._catalog.ask(f'the table "{table}"', lambda: self._list_files(table, point)))

    def _list_files(self, table: str, point: _Point) -> tuple[RemoteFile, ...]:
        if point.snapshot is None:
            return ()
        snapshot = self._find_snapshot(table, point.snapshot)
        index = self._index_deletes(table, snapshot)
        schema = self._find_schema(table, point)
        return make_files(self._find_table(table), schema, index, self._list_data(table, snapshot))

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        first, last = _Point.parse(after), _Point.parse(upto)
        if first.table != last.table:
            return Resync("the table was dropped and created again")
        if first.snapshot == last.snapshot:
            return FileChange()
        return self._catalog.ask(f'the table "{table}"', lambda: self._compare(table, first, last))

    def _compare(self, table: str, first: _Point, last: _Point) -> Change:
        try:
            return self._find_change(table, first, last)
        except HistoryLostError as error:
            return Resync(str(error))
        except FileNotFoundError:
            return Resync("the metadata of an earlier snapshot no longer exists")
        except OutsideFileError as error:
            return Resync(error.message)

    def _find_change(self, table: str, first: _Point, last: _Point) -> FileChange:
        if first.snapshot is None:  # whatever happened since, the table was empty
            return FileChange(inserted=self._list_files(table, last))
        snapshots = {s.snapshot_id: s for s in self._find_table(table).snapshots()}
        between = list_between(snapshots, first.snapshot, last.snapshot)
        touched = find_touched(self._manifests_of(table), self._contents, between)
        old = self._index_deletes(table, snapshots[first.snapshot])
        new = self._index_deletes(table, between[-1])
        schema, groups = self._find_schema(table, last), touched.groups

        def make(files: Iterable[ListedFile]) -> tuple[RemoteFile, ...]:
            return make_files(self._find_table(table), schema, new, files)

        def list_paths(paths: Iterable[str]) -> tuple[str, ...]:
            gone = [touched.gone[path] for path in paths]
            old.load_for(gone)
            return tuple(find_path(f, old.make_mask(f)) for f in gone)

        remasked = self._find_remasked(table, between[-1], touched)
        masks = [(f, old.make_mask(f), new.make_mask(f)) for f in remasked]
        masks = [(f, was, now) for f, was, now in masks if was != now]
        return FileChange(
            make(groups.inserted),
            list_paths(groups.deleted),
            (*make(groups.rewritten), *(make_file(schema, f, now) for f, _, now in masks)),
            (*list_paths(groups.replaced), *(find_path(f, was) for f, was, _ in masks)),
            make(groups.moved_to),
            list_paths(groups.moved_from),
        )

    def _find_remasked(self, table: str, snapshot: Snapshot, touched: TouchedFiles) -> list[ListedFile]:
        """Files that were part of the table all the time, of which other rows may be deleted now."""
        groups = touched.groups
        come = {f.path for f in (*groups.inserted, *groups.rewritten, *groups.moved_to)}
        if not (wanted := touched.masked - come):
            return []
        return [f for f in self._list_data(table, snapshot) if f.path in wanted]

    def release(self, upto: Mapping[str, Version]) -> None:
        """Nothing to tell: snapshots expire there by time."""

    def close(self) -> None:
        self._catalog.close()

    def _find_table(self, name: str) -> Table:
        if name not in self._tables:
            found = self._catalog.load_table(name)
            if found is None:
                raise TableNotFoundError(name, self.discover())
            self._tables[name] = found
        return self._tables[name]

    def _find_schema(self, table: str, point: _Point) -> Schema:
        schemas = self._find_table(table).schemas()
        if point.schema not in schemas:
            raise SourceAddressError(f'schema {point.schema} of the table "{table}" is gone', _GO_ON)
        return schemas[point.schema]

    def _find_snapshot(self, table: str, id: int) -> Snapshot:
        found = self._find_table(table).snapshot_by_id(id)
        if found is None:
            raise SourceAddressError(f'snapshot {id} of the table "{table}" has expired', _GO_ON)
        return found

    def _manifests_of(self, table: str) -> Manifests:
        return self._manifests.setdefault(table, Manifests(self._find_table(table).io))

    def _list_data(self, table: str, snapshot: Snapshot) -> list[ListedFile]:
        return self._manifests_of(table).list_live(snapshot, deletes=False)

    def _index_deletes(self, table: str, snapshot: Snapshot | None) -> DeleteIndex:
        files = [] if snapshot is None else self._manifests_of(table).list_live(snapshot, deletes=True)
        if snapshot is not None and any(f.kind is FileKind.EQUALITY_DELETES for f in files):
            files = leave_out_dangling(files, self._list_data(table, snapshot))
        return DeleteIndex(files, self._contents)
