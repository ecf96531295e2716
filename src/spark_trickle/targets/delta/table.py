"""A stream table as a Delta table that any engine reads: one commit for each step.

The commit carries Delta's own transaction id of this stream table, with the snapshot that it reaches, so the
library refuses a step that was made already, and one that another process makes at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

from spark_trickle.errors import (
    NotPublishedError,
    SourceBusyError,
    TargetExistsError,
    TargetRefusedError,
    UnsupportedError,
)
from spark_trickle.lake.storage.addresses import explain_storage, open_address, require_storage
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.model.files import DataFile
from spark_trickle.model.source import Mirror, WrittenColumn
from spark_trickle.model.table import Table
from spark_trickle.model.types import to_spark, type_in_query
from spark_trickle.refresh.identity import with_identity
from spark_trickle.sources.delta.columns import describe_table
from spark_trickle.sources.delta.files import make_files
from spark_trickle.sources.delta.log import DeltaLog
from spark_trickle.sources.link import Links
from spark_trickle.sources.options import SWITCH, option
from spark_trickle.targets.delta.library import (
    choose_storage_options,
    open_table,
    require_deltalake,
    write_uri,
)
from spark_trickle.targets.delta.merge import merge_change
from spark_trickle.targets.delta.state import NOTE, find_state
from spark_trickle.targets.delta.stats import render_stats
from spark_trickle.targets.files import NewFile, TargetFolder, take_files
from spark_trickle.targets.interface import Publication, RowsToPublish
from spark_trickle.targets.lake import LakeTarget, LakeVersion, Merge
from spark_trickle.targets.rewrite import NO_ROWS, Rewrite, find_candidates
from spark_trickle.targets.state import TargetState, describe_owner, require_owner, require_types

_FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class DeltaTargetOptions:
    """How a Delta table is kept."""

    change_data_feed: bool = option(
        False, "Keep Delta's change data feed, so that readers get each row that changed.", SWITCH
    )


@contextmanager
def open_delta_table(
    publication: Publication, options: DeltaTargetOptions, _links: Links, _role: str
) -> Iterator[LakeTarget[int]]:
    folder = publication.attached.options["path"].rstrip("/")
    address = f"{folder}/{publication.published.table}"
    with explain_storage():
        yield LakeTarget(DeltaTarget(address, publication, options.change_data_feed))


@dataclass(frozen=True)
class DeltaTarget:
    """`address` is the folder of the Delta table."""

    address: str
    publication: Publication
    keeps_feed: bool = False

    @property
    def full_name(self) -> str:
        return self.address.rpartition("/")[2]

    @property
    def _table(self) -> Table:
        return self.publication.table

    @property
    def _owner(self) -> str:
        return describe_owner(self._table.full_name, self.publication.warehouse)

    @cached_property
    def _log(self) -> DeltaLog:
        return DeltaLog(self.address)

    def create(self, state: TargetState) -> bool:
        library = require_deltalake()
        require_types(self._table, "a Delta table")
        self._require_key_of_feed()
        if DeltaLog(self.address.rpartition("/")[0]).exists():
            raise UnsupportedError(
                f'publishing to "{self.publication.attached.name}", which is a single Delta table',
                "Attach the folder that the table is to be in.",
            )
        if self._log.exists():
            return False
        schema = self._make_folder().schema
        library.DeltaTable.create(
            write_uri(self.address),
            schema=schema,
            mode="error",
            storage_options=choose_storage_options(self.address),
            description=self._owner,
            configuration=_FEED if self.keeps_feed else {},
        )
        self.commit(NO_ROWS, state, LakeVersion(0, None, (), True))
        return True

    def update_options(self, version: LakeVersion[int]) -> LakeVersion[int]:
        if not self.keeps_feed or self._has_feed(version.at):
            return version
        open_table(self.address).alter.set_table_properties(_FEED)
        return self.find()

    def _require_key_of_feed(self) -> None:
        if self.keeps_feed and not self._merges_by_key:
            raise UnsupportedError(
                f'a change data feed of "{self._table.full_name}", whose rows no key tells apart',
                "Group the query by columns that are no floats, or publish without change_data_feed.",
            )

    @property
    def _merges_by_key(self) -> bool:
        key = self.publication.key
        return bool(key) and bool(with_identity(self._table, key).identity)

    def drop(self) -> None:
        filesystem, folder = open_address(self.address)
        filesystem.delete_dir(folder)

    # --- looking ---------------------------------------------------------------------------------

    def find(self) -> LakeVersion[int]:
        if not (versions := self._log.list_versions()):
            raise NotPublishedError(self._table.full_name, self.full_name)
        description = self._log.read_schema(max(versions)).metadata.description
        if not description.startswith("spark-trickle keeps"):
            raise TargetExistsError(self.full_name, "spark-trickle did not create it")
        found = find_state(self._log, max(versions))
        if found.state is not None and found.state.warehouse:
            require_owner(self.publication, found.state, self.full_name)
        elif description != self._owner:
            raise NotPublishedError(self._table.full_name, self.full_name, f'"{description}"')
        return LakeVersion(found.version, found.state, found.changes, self._has_columns(found.version))

    def list_files(self, version: LakeVersion[int]) -> Sequence[DataFile]:
        metadata = self._log.read_schema(version.at).metadata
        remote = make_files(self.address, metadata, self._log.read_files(version.at))
        return take_files(self._make_folder().table, remote)

    def find_folder(self, version: LakeVersion[int]) -> TargetFolder:
        return self._make_folder()

    def _make_folder(self) -> TargetFolder:
        """Files hold the columns by their names."""
        table = self._table
        written = tuple(WrittenColumn(c.id, c.name, c.type) for c in table.columns)
        mirror = Mirror("", "", table.name, 0, (), 0, written=written)
        return TargetFolder(self.address, replace(table, mirror=mirror), table, numbered=False)

    def _has_feed(self, version: int) -> bool:
        """Whether readers want to know of each row; somebody else may have switched that on."""
        configuration = self._log.read_schema(version).metadata.configuration
        return {n: configuration.get(n, "").lower() for n in _FEED} == _FEED

    def _has_columns(self, version: int) -> bool:
        """Whether the table there has the columns and types that ours has now."""
        there = describe_table(self.full_name, self._log.read_schema(version).metadata)
        wanted = [(c.name, type_in_query(to_spark(c.type))) for c in self._table.columns]
        return [(c.name, type_in_query(c.type)) for c in there.columns] == wanted

    # --- moving on -------------------------------------------------------------------------------

    def commit(self, rewrite: Rewrite, state: TargetState, version: LakeVersion[int]) -> None:
        """A crash before it leaves files that a VACUUM of the table removes."""
        library = require_deltalake()
        if any(f.outside is not None and f.outside.mask is not None for f in rewrite.removed):
            raise UnsupportedError(
                f'writing files with deletion vectors of the Delta table "{self.full_name}"',
                "Run REORG TABLE … APPLY (PURGE) there.",
            )
        at, folder = int(time.time() * 1000), self._make_folder()
        added = [
            library.transaction.AddAction(f.path, f.bytes, {}, at, True, render_stats(f, self._table))
            for f in rewrite.added
        ]
        removed = [
            library.transaction.RemoveAction(self._relative_path(f), True, at, f.bytes, {})
            for f in rewrite.removed
        ]
        with self._committing(rewrite.added, state, version.at):
            open_table(self.address, version.at).create_write_transaction(
                added if rewrite.new_columns else [*added, *removed],
                "overwrite" if rewrite.new_columns else "append",
                folder.schema,
                commit_properties=self._note(state),
            )

    def choose_merge(self, version: LakeVersion[int], rows: RowsToPublish) -> Merge | None:
        """A feed is written by the library alone; what little is written again, it writes in less time."""
        if self._merges_by_key and (self._has_feed(version.at) or self._is_small(version, rows)):
            return partial(self._merge, version)
        return None

    def _is_small(self, version: LakeVersion[int], rows: RowsToPublish) -> bool:
        size = sum(f.bytes for f in find_candidates(self.list_files(version), rows))
        return size <= rows.work.place.settings.merge_bytes

    def _merge(self, version: LakeVersion[int], rows: RowsToPublish, state: TargetState) -> None:
        """The same, by the library: it also writes down for each row how it changed."""
        with self._committing((), state, version.at):
            there = open_table(self.address, version.at)
            schema = self._make_folder().schema
            merge_change(there, schema, self.publication.key, rows, self._note(state))

    def _note(self, state: TargetState) -> Any:
        """What a commit says of itself; Delta takes no other one of the same transaction beside it."""
        library = require_deltalake()
        transaction = f"spark-trickle/{self.publication.warehouse}/{self._table.id}"
        return library.CommitProperties(
            custom_metadata={NOTE: state.to_text()},
            app_transactions=[library.Transaction(transaction, state.snapshot or 0)],
        )

    @contextmanager
    def _committing(self, written: Sequence[NewFile], state: TargetState, version: int) -> Iterator[None]:
        crash_point("before_target_commit")
        try:
            yield
        except (require_deltalake().exceptions.DeltaError, OSError) as error:
            if not self._is_committed(state, version):
                self._make_folder().delete_files(written)
                self._explain_failure(error)
        crash_point("after_target_commit")

    def _is_committed(self, state: TargetState, version: int) -> bool:
        """Whether a commit that failed is there all the same: the answer of a bucket may have got lost.

        While nobody can tell, the error of this look is raised, and the files that were written stay: if a
        commit names them, they are part of the table.
        """
        commits = self._log.read_commits(version, self._log.find_newest(), ("commitInfo",))
        return state.to_text() in (commit.info.get(NOTE) for commit in commits)

    def _explain_failure(self, error: Exception) -> NoReturn:
        require_storage(error)
        if isinstance(error, OSError):
            raise error
        detail = str(error).splitlines()[0]
        if not isinstance(error, require_deltalake().exceptions.CommitFailedError):
            raise TargetRefusedError(self.full_name, detail) from None
        raise SourceBusyError(
            f'the Delta table "{self.full_name}" refuses the commit: {detail}',
            "Another writer may have committed first; try again.",
        ) from None

    def _relative_path(self, file: DataFile) -> str:
        assert file.outside is not None
        return file.outside.address.removeprefix(f"{self.address}/")
