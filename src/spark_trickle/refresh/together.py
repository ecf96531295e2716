"""Several refreshes as one transaction: all of them at one snapshot of their sources, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_trickle.dml.work import Work, now
from spark_trickle.errors import CatalogBusyError, ConflictError, TrickleError
from spark_trickle.lake import stream as states
from spark_trickle.model.stream import RefreshReport
from spark_trickle.model.table import Table
from spark_trickle.refresh.define import refresh_stream
from spark_trickle.refresh.immediate import keep_immediate
from spark_trickle.refresh.run import Occasion


def streams_by_id(work: Work, ids: Iterable[int]) -> list[Table]:
    """Those that are still there."""
    found = (work.catalog.table_by_id(i) for i in ids)
    return [t for t in found if t is not None and t.stream is not None]


def refresh_together(work: Work, tables: Sequence[Table], occasion: Occasion) -> list[RefreshReport]:
    """In the given order, each after those it reads; if one fails nothing is left of the others."""
    started, reports = now(), []
    for table in tables:
        try:
            reports.append(refresh_stream(work, table, occasion))
        except (ConflictError, CatalogBusyError):
            work.discard()
            raise
        except TrickleError as error:
            work.discard()
            states.record_failure(work.place.warehouse.engine, table.id, started, error)
            raise
    keep_immediate(work)
    return reports
