"""A stream table as a table of files in a lake: one commit for each step, never half of one.

What a step writes again is planned here; a `LakeTable` knows its format, and commits. It refuses a commit if
the table has moved since it was looked at, so a step that was made already is never made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NoReturn, Protocol, TypeVar

from spark_trickle.errors import RepairNeededError, WarehouseCopiedError
from spark_trickle.model.files import DataFile
from spark_trickle.model.source import Site
from spark_trickle.targets.files import TargetFolder
from spark_trickle.targets.interface import (
    Applied,
    Publication,
    PublishedState,
    RowsToPublish,
    SnapshotStep,
    require_step,
)
from spark_trickle.targets.rewrite import NO_ROWS, Rewrite, count_by_sign, plan_rewrite
from spark_trickle.targets.rows import AllRows, Difference
from spark_trickle.targets.state import TargetState, start_state

Merge = Callable[[RowsToPublish, TargetState], None]  # a net change by its key, and the state after it
V = TypeVar("V")  # what a format calls a version of a table


@dataclass(frozen=True)
class LakeVersion(Generic[V]):
    """The newest version of a published table: what we noted last, and what others did since."""

    at: V
    state: TargetState | None
    changes: tuple[str, ...]
    has_columns: bool  # those that the stream table has now, with their types


class LakeTable(Protocol[V]):
    """A published table in the format of a lake."""

    @property
    def publication(self) -> Publication: ...

    @property
    def full_name(self) -> str: ...

    def create(self, state: TargetState) -> bool:
        """Make the table with this state; False if it is there already."""

    def find(self) -> LakeVersion[V]:
        """Look at the table; refuse one that is not ours."""

    def find_folder(self, version: LakeVersion[V]) -> TargetFolder:
        """How its files hold the columns of the stream table, as they are now."""

    def update_options(self, version: LakeVersion[V]) -> LakeVersion[V]:
        """Give a table that was there already what its options ask for."""

    def choose_merge(self, version: LakeVersion[V], rows: RowsToPublish) -> Merge | None:
        """How its library merges this change by its key, if that is the better way."""

    def list_files(self, version: LakeVersion[V]) -> Sequence[DataFile]:
        """The files that it consists of."""

    def commit(self, rewrite: Rewrite, state: TargetState, version: LakeVersion[V]) -> None:
        """All of a step at once, if the table is still at this version."""

    def drop(self) -> None:
        """Delete it with its files."""


@dataclass(frozen=True)
class LakeTarget(Generic[V]):
    """One published table in a lake, behind the interface of all targets."""

    lake: LakeTable[V]

    @property
    def full_name(self) -> str:
        return self.lake.full_name

    @property
    def site(self) -> Site:
        return self.lake.publication.site

    @property
    def _start(self) -> TargetState:
        return start_state(self.lake.publication)

    # --- making and forgetting -------------------------------------------------------------------

    def create(self) -> None:
        if self.lake.create(self._start):
            return
        found = self.lake.find()
        if found.state is not None and not found.state.kept and found.state.site != self.site:
            self.refuse_copy(found.state.site)
        found = self.lake.update_options(found)
        if found.state is not None and found.state.kept:
            self.lake.commit(NO_ROWS, self._start, found)

    def drop(self, keep: bool) -> None:
        found = self.lake.find()
        if keep:
            self.lake.commit(NO_ROWS, replace(found.state or self._start, kept=True), found)
        else:
            self.lake.drop()

    def adopt(self) -> None:
        found = self.lake.find()
        self.lake.commit(NO_ROWS, (found.state or self._start).settle_at(self.site), found)

    def refuse_copy(self, served: Site) -> NoReturn:
        writes = f'the published table "{self.full_name}" is written by'
        source = self.lake.publication.attached.name
        raise WarehouseCopiedError(writes, str(served), str(self.site), f"SYNC SOURCE {source} TAKE OVER")

    # --- looking ---------------------------------------------------------------------------------

    def read_state(self) -> PublishedState:
        found = self.lake.find()
        state = found.state or self._start
        return PublishedState(
            self.lake.publication.published.schema,
            self.full_name,
            self.lake.publication.warehouse,
            self.lake.publication.table.full_name,
            None if state.kept else state.snapshot,
            state.applied_at,
            state.rows,
            state.inserted,
            state.deleted,
            found.changes,
            state.site,
            state.mark,
            columns_behind=not found.has_columns,
        )

    def has_rows(self) -> bool:
        return any(f.rows for f in self.lake.list_files(self.lake.find()))

    # --- moving on -------------------------------------------------------------------------------

    def apply(self, step: SnapshotStep, rows: RowsToPublish) -> Applied:
        found = self.lake.find()
        state = found.state or self._start
        if state.snapshot is not None and not state.kept and _is_done(found, state.snapshot, step.upto):
            return Applied(False, state.snapshot)
        require_step(self.full_name, state.snapshot, state.mark, step)
        if found.changes:
            raise RepairNeededError(self.full_name, "; ".join(found.changes))
        if found.has_columns and (merge := self.lake.choose_merge(found, rows)) is not None:
            inserted, deleted = count_by_sign(rows)
            if deleted:
                moved = state.move(step.upto, step.marks[1], inserted, deleted)
                merge(rows, self._name_owner(moved))
                return Applied(True, step.upto, inserted, deleted)
        files = self.lake.list_files(found)
        if found.has_columns:
            rewrite = plan_rewrite(self.lake.find_folder(found), self.full_name, files, rows)
        else:
            rewrite = self._replace_all(found, files, rows)
        moved = state.move(step.upto, step.marks[1], rewrite.inserted, rewrite.deleted)
        self.lake.commit(rewrite, self._name_owner(moved), found)
        return Applied(True, step.upto, rewrite.inserted, rewrite.deleted)

    def repair(self, snapshot: int, rows: RowsToPublish, mark: str) -> Applied:
        found = self.lake.find()
        state, files = found.state or self._start, self.lake.list_files(found)
        if found.has_columns:
            folder = self.lake.find_folder(found)
            difference = Difference(rows, folder.table, files)
            rewrite = plan_rewrite(folder, self.full_name, files, difference)
        else:
            rewrite = self._replace_all(found, files, rows)
        moved = state.move(snapshot, mark, rewrite.inserted, rewrite.deleted)
        self.lake.commit(rewrite, self._name_owner(replace(moved, rows=rows.most, kept=False)), found)
        return Applied(True, snapshot, rewrite.inserted, rewrite.deleted)

    def _name_owner(self, state: TargetState) -> TargetState:
        """The stream table may be called otherwise since, or be another one that continues a kept table."""
        now = self._start
        return replace(
            state, warehouse=now.warehouse, stream=now.stream, stream_id=now.stream_id, key=now.key
        )

    def _replace_all(self, found: LakeVersion[V], files: Sequence[DataFile], rows: RowsToPublish) -> Rewrite:
        """Columns have other types than before: every file is written again."""
        whole = AllRows(rows.work, rows.table)
        new = plan_rewrite(self.lake.find_folder(found), self.full_name, (), whole)
        return replace(new, removed=tuple(files), deleted=sum(f.rows for f in files), new_columns=True)


def _is_done(found: LakeVersion[V], reached: int, upto: int) -> bool:
    """Whoever wants to show an older snapshot may know only the columns of then."""
    return reached > upto or (reached == upto and found.has_columns)
