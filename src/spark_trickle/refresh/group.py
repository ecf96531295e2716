"""Several refreshes as one transaction: all of them at one snapshot of their sources, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from spark_trickle.errors import CatalogBusyError, ConflictError, TrickleError
from spark_trickle.lake.catalog import states
from spark_trickle.model.stream import Action, Occasion, RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.immediate import keep_immediate
from spark_trickle.refresh.rebuild import fill_again, refresh_unit
from spark_trickle.txn.work import Work, now


def streams_by_id(work: Work, ids: Iterable[int]) -> list[Table]:
    """Those that are still there."""
    found = (work.catalog.table_by_id(i) for i in ids)
    return [t for t in found if t is not None and t.stream is not None]


def refresh_together(
    work: Work,
    tables: Sequence[Table],
    occasion: Occasion,
    on_failure: Callable[[Iterable[int]], object] = lambda _: None,
) -> list[RefreshReport]:
    """In the given order, each after those it reads; if one fails nothing is left of the others.

    A circle is refreshed as a whole, even if just one of its members is asked for. `on_failure` is told which
    stream tables failed, before the error is raised.
    """
    started, reports = now(), dict[int, RefreshReport]()
    graph = graph_of(work.catalog.tables())
    for ids in graph.units(t.id for t in tables):
        with _record_failures(work, ids, started, on_failure):
            done = refresh_unit(work, [graph.tables[i] for i in ids], occasion)
        reports.update(zip(ids, done, strict=True))
    moved = [i for i, report in reports.items() if report.action is not Action.NO_DATA]
    with _record_failures(work, moved, started, on_failure):
        keep_immediate(work)
    return [reports[t.id] for t in tables]


def refill_stream(work: Work, table: Table, why: str) -> RefreshReport:
    """Everything anew by the plan that there is; of a circle all members."""
    ids = graph_of(work.catalog.tables()).circle_of(table.id) or (table.id,)
    with _record_failures(work, ids, now()):
        report = fill_again(work, table, why)
        keep_immediate(work)
    return report


@contextmanager
def _record_failures(
    work: Work,
    ids: Sequence[int],
    started: datetime,
    on_failure: Callable[[Iterable[int]], object] = lambda _: None,
) -> Iterator[None]:
    """What fails leaves no files, and is noted for the stream tables that were to move on.

    Also if it is an IMMEDIATE one over them: they are what will be tried again.
    """
    try:
        yield
    except (ConflictError, CatalogBusyError):  # nobody's fault
        work.discard()
        raise
    except TrickleError as error:
        work.discard()
        for i in ids:
            states.record_failure(work.place.warehouse.engine, i, started, error)
        on_failure(ids)
        raise


def list_company(work: Work, table: Table, upstream: bool = False) -> list[Table]:
    """Those that must move on with a stream table, which comes last.

    A diamond must never show two states of one table, so its arms move on with it; a circle is one whole.
    """
    graph = graph_of(work.catalog.tables())
    first = graph.ancestors(table.id) if upstream or graph.is_diamond(table.id) else ()
    return [*(graph.tables[i] for i in first), table]
