"""A stream table as an Iceberg table that any engine reads: one snapshot for each step that changes rows.

A commit says on which snapshot it builds, so the catalog refuses a step that was made already, and one that
another process makes at the same time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pyiceberg.schema import Schema
from pyiceberg.table import Table as RemoteIcebergTable

from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    TargetExistsError,
    UnsupportedError,
)
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.model.files import DataFile
from spark_trickle.model.table import Table
from spark_trickle.sources.iceberg.deletes import DeleteContents, DeleteIndex, find_address
from spark_trickle.sources.iceberg.files import make_files
from spark_trickle.sources.iceberg.manifests import Manifests
from spark_trickle.sources.interface import RemoteFile
from spark_trickle.targets.files import TargetFolder, take_files
from spark_trickle.targets.iceberg.bounds import describe_file
from spark_trickle.targets.iceberg.catalog import WritableCatalog
from spark_trickle.targets.iceberg.columns import has_columns, make_schema, number_columns, read_there
from spark_trickle.targets.iceberg.commit import (
    DELETES_METADATA,
    NewSnapshot,
    PreparedCommit,
    prepare_note,
    prepare_snapshot,
)
from spark_trickle.targets.iceberg.manifests import VERSION, find_spec
from spark_trickle.targets.iceberg.state import (
    NOTE,
    IcebergNote,
    find_history,
    list_paths,
    read_note,
    sum_paths,
)
from spark_trickle.targets.interface import Publication, RowsToPublish
from spark_trickle.targets.lake import LakeVersion
from spark_trickle.targets.rewrite import Rewrite
from spark_trickle.targets.state import TargetState, describe_owner, require_owner, require_types

_Version = LakeVersion[RemoteIcebergTable]
_PROPERTIES = {
    "format-version": str(VERSION),
    "write.parquet.compression-codec": "zstd",
    DELETES_METADATA: "true",  # old metadata files go; snapshots stay
    "write.metadata.previous-versions-max": "100",
}


@dataclass(frozen=True)
class IcebergTarget:
    """A table in a catalog of Iceberg tables."""

    catalog: WritableCatalog
    publication: Publication
    known: dict[str, Manifests] = field(default_factory=dict)  # what was read of the table, by its id

    @property
    def full_name(self) -> str:
        place = self.publication.published
        return f"{place.schema}.{place.table}"

    @property
    def _table(self) -> Table:
        return self.publication.table

    # --- making and forgetting -------------------------------------------------------------------

    def create(self, state: TargetState) -> bool:
        if not self.publication.published.schema:
            raise InvalidDefinitionError(
                f'"{self.publication.published.table}" names no namespace',
                "Write AS namespace.table; a namespace may have several levels, as in a.b.table.",
            )
        require_types(self._table, "an Iceberg table")
        if self.catalog.load_table(self.full_name) is not None:
            return False
        owner = describe_owner(self._table.full_name, self.publication.warehouse)
        schema = make_schema(self._table, itertools.count(1))
        noted = {NOTE: IcebergNote(state, None, sum_paths(())).to_text(), "comment": owner}
        return self.catalog.create_table(self.full_name, schema, {**_PROPERTIES, **noted})

    def drop(self) -> None:
        self.catalog.drop_table(self.full_name)

    # --- looking ---------------------------------------------------------------------------------

    def find(self) -> _Version:
        there = self.catalog.load_table(self.full_name)
        if there is None:
            raise NotPublishedError(self._table.full_name, self.full_name)
        note = read_note(there.metadata)
        if note is None:
            raise TargetExistsError(self.full_name, "spark-trickle did not create it")
        require_owner(self.publication, note.state, self.full_name)
        history = self.catalog.ask(
            f'the table "{self.full_name}"',
            lambda: find_history(there.metadata, note, self._find_manifests(there)),
        )
        back = history.rolled_back  # files of then may have ids that the columns of now do not have
        is_current = back is None or back.schema_id == there.metadata.current_schema_id
        same = is_current and has_columns(self._table, there.schema())
        return LakeVersion(there, history.state, history.changes, same)

    def update_options(self, version: _Version) -> _Version:
        return version

    def choose_merge(self, version: _Version, rows: RowsToPublish) -> None:
        """Its library would need all rows of a file in memory."""

    def list_files(self, version: _Version) -> Sequence[DataFile]:
        found = self.catalog.ask(f'the table "{self.full_name}"', lambda: self._list_files(version.at))
        return take_files(read_there(self._table, version.at.schema()), found)

    def _list_files(self, there: RemoteIcebergTable) -> tuple[RemoteFile, ...]:
        snapshot, manifests = there.current_snapshot(), self._find_manifests(there)
        if snapshot is None:
            return ()
        index = DeleteIndex(manifests.list_live(snapshot, deletes=True), DeleteContents())
        return make_files(there, there.schema(), index, manifests.list_live(snapshot, deletes=False))

    def _find_manifests(self, there: RemoteIcebergTable) -> Manifests:
        """What they say never changes, so they are read once."""
        return self.known.setdefault(str(there.metadata.table_uuid), Manifests(there.io))

    def find_folder(self, version: _Version) -> TargetFolder:
        return self._make_folder(version.at, self._choose_schema(version))

    def _make_folder(self, there: RemoteIcebergTable, schema: Schema) -> TargetFolder:
        address = find_address(f"{there.location().rstrip('/')}/data")
        table = self._table
        return TargetFolder(address, read_there(table, schema), number_columns(table, schema), numbered=True)

    def _choose_schema(self, version: _Version) -> Schema:
        """That of the table, or what it becomes with the next commit."""
        schema = version.at.schema()
        if version.has_columns:
            return schema
        return make_schema(self._table, itertools.count(version.at.metadata.last_column_id + 1), schema)

    # --- moving on -------------------------------------------------------------------------------

    def commit(self, rewrite: Rewrite, state: TargetState, version: _Version) -> None:
        """A crash before it leaves files that `remove_orphan_files` of another engine removes."""
        prepared = self.catalog.ask(
            f'the table "{self.full_name}"', partial(self._prepare, rewrite, state, version)
        )
        crash_point("before_target_commit")
        self.catalog.commit(version.at, prepared)
        crash_point("after_target_commit")

    def _prepare(self, rewrite: Rewrite, state: TargetState, version: _Version) -> PreparedCommit:
        there = version.at
        if there.metadata.format_version != VERSION:
            raise UnsupportedError(
                f'writing the Iceberg table "{self.full_name}", which is of version '
                f"{there.metadata.format_version} by now",
                "UNPUBLISH it, and publish the stream table under another name.",
            )
        paths = list_paths(self._find_manifests(there), there.current_snapshot())
        if rewrite.is_empty and not _changes_owner(state, version):
            return prepare_note(there, state, sum_paths(paths))
        schema = self._choose_schema(version) if rewrite.new_columns else there.schema()
        spec = find_spec(there).spec_id
        folder = f"{there.location().rstrip('/')}/data"
        added = [describe_file(f, f"{folder}/{f.path}", schema, spec) for f in rewrite.added]
        gone = frozenset(f.outside.address for f in rewrite.removed if f.outside is not None)
        now = {p for p in paths if find_address(p) not in gone} | {f.file_path for f in added}
        undo = partial(self._make_folder(there, schema).delete_files, rewrite.added)
        return prepare_snapshot(there, state, NewSnapshot(added, gone, schema, sum_paths(now)), undo)


def _changes_owner(state: TargetState, version: _Version) -> bool:
    """Then the commit is a snapshot: whoever is about to commit rows of before is refused."""
    before = version.state
    return (
        version.at.current_snapshot() is not None
        and before is not None
        and (state.site, state.kept, state.stream_id) != (before.site, before.kept, before.stream_id)
    )
