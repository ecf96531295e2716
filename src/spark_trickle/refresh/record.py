"""A refresh that ran -> its report, and the record of it that the commit keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_trickle.model.stream import Initiator, Refreshed, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Occasion:
    """Why a refresh happens now: who asked, and in what company."""

    initiated_by: Initiator = Initiator.MANUAL
    together: bool = False  # with the stream tables it reads, in one commit
    at_commit: bool = False  # inside the commit of the statement that changes its sources
    waited_ms: float | None = None
    fused: bool = True  # a fuse may stop it

    @property
    def noted(self) -> dict[str, Any]:
        """What the catalog keeps of it."""
        return {k: v for k, v in vars(self).items() if k != "fused"}


def report_of(
    table: Table, decision: Decision, facts: Facts, work: Work, clock: Clock, outcome: Outcome
) -> RefreshReport:
    return RefreshReport(
        name=table.full_name,
        action=decision.action,
        reason="; ".join(dict.fromkeys((decision.reason, *outcome.remarks))),
        rows_inserted=outcome.filled.inserted,
        rows_deleted=outcome.filled.deleted,
        delta_rows=facts.changed_rows,
        duration_ms=clock.total_ms,
        snapshot=work.base.id,
        phases=clock.phases,
        source_rows=facts.source_rows,
    )


def record_refresh(
    work: Work,
    table: Table,
    expected: int | None,
    report: RefreshReport,
    clock: Clock,
    outcome: Outcome,
    occasion: Occasion,
    outside: tuple[int, ...],
) -> None:
    """Move a stream table on with the commit of a work, if it still stands at `expected`."""
    work.note_refreshed(
        Refreshed(
            table.id,
            expected,
            work.base.id,
            report,
            clock.started,
            outside=outside,
            executions=outcome.executions,
            **occasion.noted,
        )
    )
