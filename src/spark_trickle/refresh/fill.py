"""Fill a stream table: compute all its rows, and report it as a refresh."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.stream import Action, Occasion, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.inputs import source_table
from spark_trickle.refresh.record import RefreshResult, record_refreshes
from spark_trickle.refresh.refresh import run_everything
from spark_trickle.refresh.sessions import run_in_child_session
from spark_trickle.txn.work import Work


def fill_stream(
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
    with open_reader(work.place.warehouse.engine) as connection:
        expected = states.read_state(connection, table.id).frontier
    source_rows = sum(work.row_count(source_table(work, s)) for s in stream.sources)
    facts = Facts(stream.mode, None, work.base.id, (), 0, source_rows)
    decision = Decision(Action.FULL, why)
    outcome = run_in_child_session(
        work, table, lambda: run_everything(work, table, None, decision, facts, clock)
    )
    before = {r.table_id for r in work.refreshed}  # their rows are read as this commit leaves them
    together = occasion.together or any(s.table_id in before for s in stream.sources)
    result = RefreshResult(table, expected, Decision(action, why), facts, clock, outcome)
    return record_refreshes(work, [result], replace(occasion, together=together))[0]
