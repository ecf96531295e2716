"""Stream tables whose sources rest -> moved on to now, so that VACUUM need not keep what came before.

A refresh that finds nothing new leaves the frontier where it is. What a stream table over tables that never
change has read would be kept for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from spark_trickle.errors import ConflictError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.stream import Action, Occasion, Refreshed, Status, StreamState
from spark_trickle.model.table import Table
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.record import RefreshResult
from spark_trickle.refresh.refresh import find_changed_sources, require_stream
from spark_trickle.txn.work import Place, Work, begin_work

Resting = tuple[Table, StreamState]


def find_resting_streams(work: Work) -> list[list[Resting]]:
    """Those whose sources have not changed since they were read; a circle rests as a whole or not at all."""
    graph = graph_of(work.catalog.tables())
    with open_reader(work.place.warehouse.engine) as connection:
        known = states.all_states(connection)
    filled = [ids for ids in graph.units(sorted(graph.reads)) if known.keys() >= set(ids)]
    units = [[(graph.tables[i], known[i]) for i in ids] for ids in filled]
    return [unit for unit in units if all(_rests(work, *member) for member in unit)]


def _rests(work: Work, table: Table, state: StreamState) -> bool:
    found = [work.catalog.table_by_id(s.table_id) for s in require_stream(table).sources]
    sources = [t for t in found if t is not None]
    if state.status is not Status.ACTIVE or state.knows is None or len(sources) < len(found):
        return False
    return not find_changed_sources(work, sources, state.knows)


def advance_resting_streams(place: Place) -> None:
    """Let them know their sources up to the newest snapshot; one that is refreshed meanwhile has moved on."""
    work = begin_work(place)
    try:
        for unit in find_resting_streams(work):
            if any(state.frontier != work.base.id for _, state in unit):
                with suppress(ConflictError):
                    states.move_on(place.warehouse.engine, _move_on(work, unit), work.base.id)
    finally:
        work.discard()


def _move_on(work: Work, unit: Sequence[Resting]) -> list[Refreshed]:
    upto, decision = work.base.id, Decision(Action.NO_DATA, "no source changed")
    results = (
        RefreshResult(table, state.frontier, decision, _state_facts(table, state, upto), Clock())
        for table, state in unit
    )
    return [result.move_on(upto, Occasion()) for result in results]


def _state_facts(table: Table, state: StreamState, upto: int) -> Facts:
    return Facts(require_stream(table).mode, state.frontier, upto, (), 0, 0)
