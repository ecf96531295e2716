"""Several refreshes as one transaction: all of them at one snapshot of their sources, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_trickle.dml.work import Work, now
from spark_trickle.errors import CatalogBusyError, ConflictError, TrickleError
from spark_trickle.lake import stream as states
from spark_trickle.model.stream import RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.define import refresh_unit
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.immediate import keep_immediate
from spark_trickle.refresh.run import Occasion


def streams_by_id(work: Work, ids: Iterable[int]) -> list[Table]:
    """Those that are still there."""
    found = (work.catalog.table_by_id(i) for i in ids)
    return [t for t in found if t is not None and t.stream is not None]


def refresh_together(work: Work, tables: Sequence[Table], occasion: Occasion) -> list[RefreshReport]:
    """In the given order, each after those it reads; if one fails nothing is left of the others.

    A circle is refreshed as a whole, even if just one of its members is asked for.
    """
    started, reports = now(), dict[int, RefreshReport]()
    graph = graph_of(work.catalog.tables())
    for ids in graph.units(t.id for t in tables):
        try:
            done = refresh_unit(work, [graph.tables[i] for i in ids], occasion)
        except (ConflictError, CatalogBusyError):
            work.discard()
            raise
        except TrickleError as error:
            work.discard()
            for i in ids:
                states.record_failure(work.place.warehouse.engine, i, started, error)
            raise
        reports.update(zip(ids, done, strict=True))
    keep_immediate(work)
    return [reports[t.id] for t in tables]


def company(work: Work, table: Table, upstream: bool = False) -> list[Table]:
    """Those that must move on with a stream table, which comes last.

    A diamond must never show two states of one table, so its arms move on with it; a circle is one whole.
    """
    graph = graph_of(work.catalog.tables())
    first = graph.ancestors(table.id) if upstream or graph.is_diamond(table.id) else ()
    return [*(graph.tables[i] for i in first), table]
