"""What a refresh computed -> its report, and the record of it that the commit keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.model.stream import Occasion, Refreshed, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class RefreshResult:
    """A refresh of one stream table: what was decided from which facts, and what came of it."""

    table: Table
    stood_at: int | None  # the frontier it began from
    decision: Decision
    facts: Facts
    clock: Clock
    outcome: Outcome = Outcome()  # noqa: RUF009 a value

    def move_on(self, snapshot: int, occasion: Occasion, outside: tuple[int, ...] = ()) -> Refreshed:
        """What a commit keeps of it."""
        return Refreshed(
            self.table.id,
            self.stood_at,
            snapshot,
            self.report(snapshot),
            self.clock.started,
            occasion,
            executions=self.outcome.executions,
            outside=outside,
        )

    def report(self, snapshot: int) -> RefreshReport:
        return RefreshReport(
            name=self.table.full_name,
            action=self.decision.action,
            reason="; ".join(dict.fromkeys((self.decision.reason, *self.outcome.remarks))),
            rows_inserted=self.outcome.filled.inserted,
            rows_deleted=self.outcome.filled.deleted,
            delta_rows=self.facts.changed_rows,
            duration_ms=self.clock.total_ms,
            snapshot=snapshot,
            phases=self.clock.phases,
            source_rows=self.facts.source_rows,
        )


def record_refreshes(work: Work, results: Sequence[RefreshResult], occasion: Occasion) -> list[RefreshReport]:
    """Move stream tables on with the commit of a work, if they still stand where they stood."""
    outside = _find_outside_sources(work, [r.table for r in results], occasion.at_commit)
    refreshed = [r.move_on(work.base.id, occasion, outside) for r in results]
    for each in refreshed:
        work.note_refreshed(each)
    return [each.report for each in refreshed]


def _find_outside_sources(work: Work, tables: Sequence[Table], at_commit: bool) -> tuple[int, ...]:
    """What some read and take to be known up to the commit, although this work does not refresh it.

    That is other stream tables; and every source of those that are kept in the commit of a statement.
    """
    own = {r.table_id for r in work.refreshed} | {t.id for t in tables}
    read = {s.table_id for t in tables if t.stream is not None for s in t.stream.sources} - own
    sources = (t for i in sorted(read) if (t := work.catalog.table_by_id(i)) is not None)
    return tuple(t.id for t in sources if at_commit or t.stream is not None)
