"""The catalog -> the facts that the scheduler needs, in a few queries for any number of stream tables."""

from __future__ import annotations

from spark_trickle.lake.catalog import scheduling, states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.stream import Status, StreamState
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.scheduler.due import Standing, World, find_lagging
from spark_trickle.txn.work import Place, begin_work


def survey_world(place: Place, graphs: dict[int, Graph] | None = None) -> World:
    """`graphs` keeps the graph for as long as no definition changes."""
    work = begin_work(place)
    graphs = {} if graphs is None else graphs
    version = work.base.schema_version
    if version not in graphs:
        graphs.clear()
        graphs[version] = graph_of(work.catalog.tables())
    graph = graphs[version]
    with open_reader(place.warehouse.engine) as connection:
        known = states.all_states(connection)
        runs = scheduling.last_runs(connection)
        frontiers = [s.frontier for i, s in known.items() if i in graph.reads and s.frontier is not None]
        changes = scheduling.last_changes(connection, min(frontiers, default=0))
        gates = frozenset(scheduling.read_gates(connection))
        groups = scheduling.watermark_groups(connection)
        marks = {i: at for i, (at, _, _) in scheduling.read_watermarks(connection).items()}
        paused = scheduling.is_paused(connection)
        unseen = {i: _first_unseen(graph, i, known.get(i), changes) for i in graph.order}
        times = scheduling.read_commit_times(
            connection, [first for first in unseen.values() if first is not None]
        )
    standings = {}
    for i in graph.order:
        run, first = runs.get(i), unseen[i]
        standings[i] = Standing(
            known.get(i) or StreamState(i, None, Status.INITIALIZING),
            run.started if run else None,
            (run.duration_ms or 0.0) if run else 0.0,
            times.get(first) if first is not None else None,
        )
    names = {i: graph.name(i) for i in (*graph.tables, *graph.readers)}
    return World(graph, standings, gates, find_lagging(groups, marks, names), paused)


def _first_unseen(
    graph: Graph, i: int, state: StreamState | None, changes: dict[int, tuple[int, int]]
) -> int | None:
    """The first snapshot, or one close to it, that changed a source after what the stream table knows."""
    knows = state.knows if state is not None else None
    if knows is None:
        return None
    found = []
    for source in graph.reads[i]:
        upto = knows.streams if source in graph.reads else knows.tables
        first, last = changes.get(source, (0, 0))
        if last > upto:
            found.append(max(first, upto + 1))
    return min(found, default=None)
