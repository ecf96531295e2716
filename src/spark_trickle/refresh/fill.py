"""Fill a stream table: compute all its rows, and report it as a refresh."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.model.stream import Action, Refreshed, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.inputs import source_table
from spark_trickle.refresh.node import Clock
from spark_trickle.refresh.refresh import Occasion, outside, run_nodes
from spark_trickle.txn.work import Work


def fill(
    work: Work,
    table: Table,
    why: str,
    action: Action = Action.FULL,
    occasion: Occasion = Occasion(),  # noqa: B008 a value
) -> RefreshReport:
    """Compute all rows at the snapshot that the work reads; see `run_in_full`."""
    clock = Clock()
    stream = table.stream
    assert stream is not None
    with reading(work.place.warehouse.engine) as connection:
        expected = states.state(connection, table.id).frontier
    facts = Facts(stream.mode, None, work.base.id, (), 0, 0)
    done = run_nodes(work, table, None, Decision(Action.FULL, why), facts, clock)
    report = RefreshReport(
        name=table.full_name,
        action=action,
        reason=why,
        rows_inserted=done.come,
        rows_deleted=done.gone,
        duration_ms=sum(clock.phases.values()),
        phases=clock.phases,
        source_rows=sum(work.row_count(source_table(work, s)) for s in stream.sources),
    )
    before = {r.table_id for r in work.refreshed}  # their rows are read as this commit leaves them
    together = occasion.together or any(s.table_id in before for s in stream.sources)
    work.refreshed.append(
        Refreshed(
            table.id,
            expected,
            work.base.id,
            report,
            clock.started,
            outside=outside(work, [table], occasion.at_commit),
            **replace(occasion, together=together).noted,
        )
    )
    return report
