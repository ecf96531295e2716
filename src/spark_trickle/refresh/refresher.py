"""Stream tables -> refreshed ones, each or many in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from spark_trickle.errors import TrickleError, raise_failures
from spark_trickle.lake.catalog.engine import require_writable
from spark_trickle.lake.catalog.states import move_on
from spark_trickle.model.stream import Action, Initiator, Occasion, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.apply import choose_storage
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.refresh.group import list_company, refresh_together, streams_by_id
from spark_trickle.spark.errors import notice_loss
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements.kinds import Name
from spark_trickle.txn import compact
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.retry import retry_work
from spark_trickle.txn.work import Work


@dataclass
class Failures:
    """What failed, and what is left out because of it: the same and all that read it."""

    graph: Graph
    errors: list[TrickleError] = field(default_factory=list)
    left_out: set[int] = field(default_factory=set)

    def add(self, error: TrickleError, ids: Iterable[int]) -> None:
        self.errors.append(error)
        for i in ids:
            self.left_out |= {i, *self.graph.descendants(i)}


class Refresher:
    """Refreshes stream tables and commits; `follow` is told which of them were refreshed by hand."""

    def __init__(
        self, connection: WarehouseConnection, follow: Callable[[Iterable[int]], object] = lambda _: None
    ) -> None:
        self._connection = connection
        self._follow = follow
        self._untidy = set[int]()  # tables that scheduled refreshes left to be compacted

    def refresh(self, name: str, *, upstream: bool = False) -> RefreshReport:
        return self.refresh_table(Cursor(name).read_name(), upstream)

    def refresh_table(self, name: Name, upstream: bool = False) -> RefreshReport:
        def choose_tables(work: Work) -> list[Table]:
            return list_company(work, find_stream_table(work, name), upstream)

        return self.refresh_chosen(choose_tables)[-1]

    def refresh_all(self, *, atomic: bool = True) -> list[RefreshReport]:
        """All at one snapshot and in one commit, or each by itself; what fails does not stop the others."""
        self._require_refreshes()
        graph = graph_of(self._connection.read().catalog.tables())
        failures = Failures(graph)
        reports, refreshed = list[RefreshReport](), list[int]()
        for group in [graph.order] if atomic else graph.groups:
            done, moved = self._refresh_unless_failed(group, failures)
            reports += done
            refreshed += moved
        try:
            self._follow(refreshed)
        except TrickleError as error:
            failures.errors.append(error)
        try:
            raise_failures("refreshes", failures.errors)
        except TrickleError as error:
            names = ", ".join(r.name for r in reports) or "none"
            error.add_note(f"stream tables that are up to date now: {names}")
            raise
        return reports

    def _refresh_unless_failed(
        self, ids: Sequence[int], failures: Failures
    ) -> tuple[list[RefreshReport], list[int]]:
        """Those of a group that do not depend on what failed; again without what fails now."""
        while wanted := [i for i in ids if i not in failures.left_out]:
            blamed: list[int] = []
            try:
                return self._refresh_and_commit(
                    lambda work: streams_by_id(work, wanted), on_failure=blamed.extend
                )
            except TrickleError as error:
                failures.add(error, set(blamed).intersection(wanted) or wanted)
        return [], []

    def refresh_chosen(
        self,
        choose: Callable[[Work], list[Table]],
        initiated_by: Initiator = Initiator.MANUAL,
        waited_ms: float | None = None,
    ) -> list[RefreshReport]:
        """Refresh some stream tables in one commit; run again after a conflict."""
        with notice_loss():
            reports, refreshed = self._refresh_and_commit(choose, initiated_by, waited_ms)
        self._follow(refreshed)
        return reports

    def _refresh_and_commit(
        self,
        choose: Callable[[Work], list[Table]],
        initiated_by: Initiator = Initiator.MANUAL,
        waited_ms: float | None = None,
        on_failure: Callable[[Iterable[int]], object] = lambda _: None,
    ) -> tuple[list[RefreshReport], list[int]]:
        """The reports, and the stream tables whose published tables are to follow."""
        self._require_refreshes()

        def attempt_refresh(work: Work) -> tuple[list[RefreshReport], list[int]]:
            tables = choose(work)
            occasion = Occasion(initiated_by, together=len(tables) > 1, waited_ms=waited_ms)
            return self._commit_reports(work, refresh_together(work, tables, occasion, on_failure))

        return retry_work(self._connection.place, attempt_refresh)

    def _require_refreshes(self) -> None:
        self._connection.require_no_transaction(
            "REFRESH", "COMMIT or ROLLBACK first: a refresh is a commit of its own."
        )
        require_writable(self._connection.place.warehouse.engine)

    def commit(self, work: Work, reports: list[RefreshReport]) -> list[RefreshReport]:
        """Commit refreshes that were made in a work, and let published tables follow."""
        reports, refreshed = self._commit_reports(work, reports)
        self._follow(refreshed)
        return reports

    def _commit_reports(
        self, work: Work, reports: list[RefreshReport]
    ) -> tuple[list[RefreshReport], list[int]]:
        """Commit refreshes, if they changed anything."""
        start = time.perf_counter()
        if all(r.action is Action.NO_DATA for r in reports):
            work.discard()
            return reports, []
        if work.empty:
            move_on(work.place.warehouse.engine, work.refreshed, work.base.id)
            work.discard()
            snapshot = work.base.id
        else:
            reports = choose_storage(work, reports)
            snapshot = work.commit(f"refresh {', '.join(sorted({r.action for r in reports}))}").id
        commit_ms = (time.perf_counter() - start) * 1000
        changed = [c.table.id for c in work.changes.values() if c.changes_content]
        if any(r.occasion.initiated_by is Initiator.SCHEDULER for r in work.refreshed):
            self._untidy.update(changed)
        else:
            compact.tidy_tables(work.place, changed)
        by_hand = [r.table_id for r in work.refreshed if r.occasion.initiated_by is Initiator.MANUAL]
        return [_note_commit(r, snapshot, commit_ms) for r in reports], by_hand

    def compact_untidy(self) -> None:
        """Compact what scheduled refreshes left to be compacted."""
        while self._untidy:
            compact.tidy_tables(self._connection.place, [self._untidy.pop()])


def _note_commit(report: RefreshReport, snapshot: int, commit_ms: float) -> RefreshReport:
    if report.action is Action.NO_DATA:
        return report
    phases = {**report.phases, "commit": commit_ms}
    return replace(report, snapshot=snapshot, phases=phases, duration_ms=sum(phases.values()))
