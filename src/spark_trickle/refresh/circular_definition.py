"""The definition of a stream table -> whether it may close a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_trickle.algebra.references import TableRef
from spark_trickle.errors import CircleRefusedError, CircularError
from spark_trickle.model.stream import Mode
from spark_trickle.model.table import Table
from spark_trickle.plan.monotone import find_taking_operator, sources_kept_as_bags
from spark_trickle.plan.split import Node
from spark_trickle.refresh.compile import Compiled, nodes_of
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.txn.work import Work


def check_circle(work: Work, table: Table, mode: Mode, compiled: Compiled) -> None:
    """A circle that was there before is never refused for the sake of a setting."""
    graph = graph_of(work.catalog.tables())
    reads = [s.table_id for s in compiled.sources]
    way = graph.cycle_through(table.id, reads)
    if way is None:
        return
    if not work.place.settings.allow_circular and not graph.circle_of(table.id):
        raise CircularError(tuple(graph.tables[i].full_name for i in way))
    members = [graph.tables[i] for i in graph.with_reads(table.id, reads).circle_of(table.id)]
    programs = {
        m.id: compiled.nodes if m.id == table.id else nodes_of(m.stream.plan)
        for m in members
        if m.stream is not None
    }
    for m in members:
        assert m.stream is not None
        check_mode(m, mode if m.id == table.id else m.stream.mode)
        check_member(m, programs[m.id], programs)
    check_growth(graph.tables, programs)


def check_mode(member: Table, mode: Mode) -> None:
    if mode is Mode.IMMEDIATE:
        raise CircleRefusedError(
            member.full_name,
            "its refresh mode is IMMEDIATE",
            "Use AUTO with a short schedule: a circle is refreshed as a whole, in its own commit.",
        )


def check_member(member: Table, nodes: Sequence[Node], programs: Mapping[int, Sequence[Node]]) -> None:
    """More rows in the circle must never mean fewer rows in a member."""
    if word := find_taking_operator(nodes, frozenset(map(TableRef, programs))):
        raise CircleRefusedError(
            member.full_name,
            f"{word} over a stream table of the circle",
            "Only filters, inner and semi joins, UNION, DISTINCT and explode are allowed there: "
            "compute it in a stream table that reads the circle, or over tables outside the circle.",
        )


def check_growth(tables: Mapping[int, Table], programs: Mapping[int, Sequence[Node]]) -> None:
    """Without a DISTINCT on the way around every round would add the same rows again."""
    circle = frozenset(map(TableRef, programs))
    bare = {
        i: tuple(sorted(t.id for t in sources_kept_as_bags(nodes, circle))) for i, nodes in programs.items()
    }
    for growing in Graph({}, bare).circles:
        raise CircleRefusedError(
            tables[growing[0]].full_name,
            "the circle has no DISTINCT, so its rows would multiply forever",
            "Write SELECT DISTINCT, or UNION instead of UNION ALL, in one of its stream tables.",
        )
