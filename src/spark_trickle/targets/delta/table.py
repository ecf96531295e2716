"""A stream table as a Delta table that any engine reads: one commit for each step, never half of one.

The commit carries Delta's own transaction id of this stream table, with the snapshot that it reaches, so the
library refuses a step that was made already, and one that another process makes at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

from spark_trickle.errors import (
    NotPublishedError,
    RepairNeededError,
    SourceBusyError,
    TargetExistsError,
    UnsupportedError,
    WarehouseCopiedError,
)
from spark_trickle.lake.storage.addresses import open_address
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.model.arrow import can_hold
from spark_trickle.model.files import DataFile
from spark_trickle.model.source import Site
from spark_trickle.model.table import Table
from spark_trickle.model.types import to_spark, type_in_query
from spark_trickle.refresh.identity import with_identity
from spark_trickle.sources.delta.columns import describe_table
from spark_trickle.sources.delta.files import make_files
from spark_trickle.sources.delta.log import DeltaLog
from spark_trickle.sources.link import Links
from spark_trickle.sources.options import SWITCH, option
from spark_trickle.targets.delta.files import NewFile, delete_files, files_there, plain_schema, table_there
from spark_trickle.targets.delta.library import require_deltalake
from spark_trickle.targets.delta.merge import merge_change
from spark_trickle.targets.delta.rewrite import Rewrite, count_by_sign, plan_rewrite
from spark_trickle.targets.delta.state import NOTE, DeltaState, Found, describe_owner, find_state
from spark_trickle.targets.interface import (
    Applied,
    Publication,
    PublishedState,
    RowsToPublish,
    SnapshotStep,
    require_step,
)
from spark_trickle.targets.rows import AllRows, Difference

_FEED = {"delta.enableChangeDataFeed": "true"}
_NOWHERE = DeltaState(None, "", "", "")
_NO_ROWS = Rewrite((), (), 0, 0)


@dataclass(frozen=True)
class DeltaTargetOptions:
    """How a Delta table is kept."""

    change_data_feed: bool = option(
        False, "Keep Delta's change data feed, so that readers get each row that changed.", SWITCH
    )


@contextmanager
def open_delta_table(
    publication: Publication, options: DeltaTargetOptions, _links: Links, _role: str
) -> Iterator[DeltaTarget]:
    yield DeltaTarget(
        f"{publication.attached.options['path'].rstrip('/')}/{publication.published.table}",
        publication.table,
        publication.warehouse,
        publication.site,
        publication.attached.name,
        publication.key,
        options.change_data_feed,
    )


@dataclass(frozen=True)
class DeltaTarget:
    """`address` is the folder of the Delta table."""

    address: str
    table: Table
    warehouse: str
    site: Site
    source: str
    key: tuple[str, ...]
    keeps_feed: bool = False

    @property
    def full_name(self) -> str:
        return self.address.rpartition("/")[2]

    @property
    def _owner(self) -> str:
        return describe_owner(self.table.full_name, self.warehouse)

    @property
    def _transaction(self) -> str:
        return f"spark-trickle/{self.warehouse}/{self.table.id}"

    @cached_property
    def _log(self) -> DeltaLog:
        return DeltaLog(self.address)

    # --- making and forgetting -------------------------------------------------------------------

    def create(self) -> None:
        library = require_deltalake()
        self._require_types()
        self._require_key_of_feed()
        if DeltaLog(self.address.rpartition("/")[0]).exists():
            raise UnsupportedError(
                f'publishing to "{self.source}", which is a single Delta table',
                "Attach the folder that the table is to be in.",
            )
        if not self._log.exists():
            library.DeltaTable.create(
                self.address,
                schema=plain_schema(self.table),
                mode="error",
                description=self._owner,
                configuration=_FEED if self.keeps_feed else {},
            )
            self._commit(_NO_ROWS, self._new_state, 0)
            return
        found = self._find()
        if found.state is not None and not found.state.kept and found.state.site != self.site:
            self.refuse_copy(found.state.site)
        if self.keeps_feed and not self._has_feed(found.version):
            library.DeltaTable(self.address).alter.set_table_properties(_FEED)
            found = self._find()
        if found.state is not None and found.state.kept:
            self._commit(_NO_ROWS, self._new_state, found.version)

    @property
    def _new_state(self) -> DeltaState:
        return replace(_NOWHERE, host=self.site.host, catalog=self.site.catalog, key=self.key)

    def _require_types(self) -> None:
        for column in self.table.columns:
            if not can_hold(column.type):
                raise UnsupportedError(
                    f'the type of column "{column.name}" in a Delta table', "Cast it in the query."
                )

    def _require_key_of_feed(self) -> None:
        if self.keeps_feed and not self._merges_by_key:
            raise UnsupportedError(
                f'a change data feed of "{self.table.full_name}", whose rows no key tells apart',
                "Group the query by columns that are no floats, or publish without change_data_feed.",
            )

    @property
    def _merges_by_key(self) -> bool:
        return bool(self.key) and bool(with_identity(self.table, self.key).identity)

    def drop(self, keep: bool) -> None:
        found = self._find()
        if keep:
            state = found.state or self._new_state
            self._commit(_NO_ROWS, replace(state, kept=True), found.version)
            return
        filesystem, folder = open_address(self.address)
        filesystem.delete_dir(folder)

    def adopt(self) -> None:
        found = self._find()
        state = found.state or self._new_state
        moved = replace(state, host=self.site.host, catalog=self.site.catalog)
        self._commit(_NO_ROWS, moved, found.version)

    def refuse_copy(self, served: Site) -> NoReturn:
        writes = f'the published table "{self.full_name}" is written by'
        raise WarehouseCopiedError(
            writes, str(served), str(self.site), f"SYNC SOURCE {self.source} TAKE OVER"
        )

    # --- looking ---------------------------------------------------------------------------------

    def _find(self) -> Found:
        if not self._log.exists():
            raise NotPublishedError(self.table.full_name, self.full_name)
        schema = self._log.read_schema(self._log.find_newest())
        if schema.metadata.description != self._owner:
            if schema.metadata.description.startswith("spark-trickle keeps"):
                raise NotPublishedError(
                    self.table.full_name, self.full_name, f'"{schema.metadata.description}"'
                )
            raise TargetExistsError(self.full_name, "spark-trickle did not create it")
        return find_state(self._log)

    def read_state(self) -> PublishedState:
        found = self._find()
        state = found.state or replace(_NOWHERE, host=self.site.host, catalog=self.site.catalog)
        return PublishedState(
            "",
            self.full_name,
            self.warehouse,
            self.table.full_name,
            None if state.kept else state.snapshot,
            state.applied_at,
            state.rows,
            state.inserted,
            state.deleted,
            found.changes,
            state.site,
            state.mark,
            columns_behind=not self._has_columns(found.version),
        )

    def has_rows(self) -> bool:
        return any(f.rows for f in self._files(self._log.find_newest()))

    def _files(self, version: int) -> list[DataFile]:
        metadata = self._log.read_schema(version).metadata
        remote = make_files(self.address, metadata, self._log.read_files(version))
        return files_there(table_there(self.table), remote)

    def _has_feed(self, version: int) -> bool:
        """Whether readers want to know of each row; somebody else may have switched that on."""
        configuration = self._log.read_schema(version).metadata.configuration
        return {n: configuration.get(n, "").lower() for n in _FEED} == _FEED

    def _has_columns(self, version: int) -> bool:
        """Whether the table there has the columns and types that ours has now."""
        there = describe_table(self.full_name, self._log.read_schema(version).metadata)
        wanted = [(c.name, type_in_query(to_spark(c.type))) for c in self.table.columns]
        return [(c.name, type_in_query(c.type)) for c in there.columns] == wanted

    # --- moving on -------------------------------------------------------------------------------

    def apply(self, step: SnapshotStep, rows: RowsToPublish) -> Applied:
        found = self._find()
        state = found.state or self._new_state
        if state.snapshot is not None and state.snapshot >= step.upto and not state.kept:
            return Applied(False, state.snapshot)
        require_step(self.full_name, state.snapshot, state.mark, step)
        if found.changes:
            raise RepairNeededError(self.full_name, "; ".join(found.changes))
        has_columns = self._has_columns(found.version)
        if has_columns and self._merges_by_key and self._has_feed(found.version):
            inserted, deleted = count_by_sign(rows)
            if deleted:
                moved = state.move(step.upto, step.marks[1], inserted, deleted)
                self._merge(rows, moved, found.version)
                return Applied(True, step.upto, inserted, deleted)
        files = self._files(found.version)
        if has_columns:
            rewrite = plan_rewrite(self.address, self.full_name, files, rows)
        else:
            rewrite = self._replace_all(files, rows)
        moved = state.move(step.upto, step.marks[1], rewrite.inserted, rewrite.deleted)
        self._commit(rewrite, moved, found.version)
        return Applied(True, step.upto, rewrite.inserted, rewrite.deleted)

    def repair(self, snapshot: int, rows: RowsToPublish, mark: str) -> Applied:
        found = self._find()
        state, files = found.state or self._new_state, self._files(found.version)
        if self._has_columns(found.version):
            difference = Difference(rows, table_there(self.table), files)
            rewrite = plan_rewrite(self.address, self.full_name, files, difference)
        else:
            rewrite = self._replace_all(files, rows)
        moved = state.move(snapshot, mark, rewrite.inserted, rewrite.deleted)
        self._commit(rewrite, replace(moved, rows=rows.most, kept=False), found.version)
        return Applied(True, snapshot, rewrite.inserted, rewrite.deleted)

    def _replace_all(self, files: Sequence[DataFile], rows: RowsToPublish) -> Rewrite:
        """Columns have other types than before: every file is written again."""
        whole = AllRows(rows.work, rows.table)
        empty = plan_rewrite(self.address, self.full_name, (), whole)
        return replace(empty, removed=tuple(files), deleted=sum(f.rows for f in files), new_columns=True)

    def _commit(self, rewrite: Rewrite, state: DeltaState, version: int) -> None:
        """All of a step in one commit; a crash before it leaves files that a VACUUM of the table removes."""
        library = require_deltalake()
        if any(f.outside is not None and f.outside.mask is not None for f in rewrite.removed):
            raise UnsupportedError(
                f'writing files with deletion vectors of the Delta table "{self.full_name}"',
                "Run REORG TABLE … APPLY (PURGE) there.",
            )
        at = int(time.time() * 1000)
        added = [library.transaction.AddAction(f.path, f.bytes, {}, at, True, f.stats) for f in rewrite.added]
        removed = [
            library.transaction.RemoveAction(self._relative_path(f), True, at, f.bytes, {})
            for f in rewrite.removed
        ]
        with self._committing(rewrite.added):
            library.DeltaTable(self.address, version=version).create_write_transaction(
                added if rewrite.new_columns else [*added, *removed],
                "overwrite" if rewrite.new_columns else "append",
                plain_schema(self.table),
                commit_properties=self._note(state),
            )

    def _merge(self, rows: RowsToPublish, state: DeltaState, version: int) -> None:
        """The same, by the library: it also writes down for each row how it changed."""
        with self._committing(()):
            there = require_deltalake().DeltaTable(self.address, version=version)
            merge_change(there, self.key, rows, self._note(state))

    def _note(self, state: DeltaState) -> Any:
        """What a commit says of itself; Delta takes no other one of the same transaction beside it."""
        library = require_deltalake()
        return library.CommitProperties(
            custom_metadata={NOTE: state.to_text()},
            app_transactions=[library.Transaction(self._transaction, state.snapshot or 0)],
        )

    @contextmanager
    def _committing(self, written: Sequence[NewFile]) -> Iterator[None]:
        crash_point("before_target_commit")
        try:
            yield
        except require_deltalake().exceptions.DeltaError as error:
            delete_files(self.address, written)
            detail = str(error).splitlines()[0]
            raise SourceBusyError(
                f'the Delta table "{self.full_name}" refuses the commit: {detail}'
            ) from None
        crash_point("after_target_commit")

    def _relative_path(self, file: DataFile) -> str:
        assert file.outside is not None
        return file.outside.address.removeprefix(f"{self.address}/")
