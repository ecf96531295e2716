"""What a transaction changes -> the IMMEDIATE stream tables that follow from it, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from spark_trickle.errors import QueryError
from spark_trickle.model.catalog import Catalog
from spark_trickle.model.stream import Initiator, Mode, Occasion
from spark_trickle.model.table import Table
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.rebuild import refresh_stream
from spark_trickle.txn.net import merge_changes
from spark_trickle.txn.work import Work
from spark_trickle.txn.work_state import WorkState


def has_immediate(catalog: Catalog) -> bool:
    return any(_is_immediate(t) for t in catalog.tables())


def keep_immediate(work: Work) -> None:
    """Bring every IMMEDIATE stream table up to date whose sources this transaction changed.

    Two transactions that both change sources of one of them cannot both be based on its rows: the second
    finds it moved on, and is run again.
    """
    if not has_immediate(work.catalog):
        return
    graph = graph_of(work.catalog.tables())
    for i in graph.order:
        table = graph.tables[i]
        changed = any(s in work.changes and work.changes[s].changes_content for s in graph.reads[i])
        if changed and _is_immediate(table) and i not in {r.table_id for r in work.refreshed}:
            with _name_in_errors(table):
                refresh_stream(work, table, Occasion(Initiator.IMMEDIATE, at_commit=True))


class OwnEffects:
    """A transaction -> the same transaction after its IMMEDIATE stream tables followed it, to be read from.

    It is computed when a query asks for such a table, and kept until the transaction changes something else.
    """

    def __init__(self) -> None:
        self._known: tuple[WorkState, Work] | None = None

    def __call__(self, work: Work, table: Table) -> Work:
        if not _is_immediate(table) or not any(c.changes_content for c in work.changes.values()):
            return work
        if self._known is None or not _is_unchanged(self._known[0], work.state):
            after = replace(work.begin_scratch(), effects=None)
            merge_changes(after)
            keep_immediate(after)
            self._known = (work.state, after)
        return self._known[1]


def _is_unchanged(before: WorkState, now: WorkState) -> bool:
    """Whether a transaction has done nothing since; within a view its catalog has other names."""
    return before.changes is now.changes and before.definitions is now.definitions


@contextmanager
def _name_in_errors(table: Table) -> Iterator[None]:
    """Who changed a source did not write this query, and must learn which one it is."""
    try:
        yield
    except QueryError as error:
        raise replace(
            error, detail=f'in the IMMEDIATE stream table "{table.full_name}": {error.detail}'
        ) from error


def _is_immediate(table: Table) -> bool:
    return table.stream is not None and table.stream.mode is Mode.IMMEDIATE
