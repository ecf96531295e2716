"""Refresh a stream table, or a circle of them; where its sources changed, build it anew first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.model.stream import Action, Occasion, RefreshReport, Stream
from spark_trickle.model.table import Table
from spark_trickle.refresh.circle import is_circle, refresh_circle
from spark_trickle.refresh.decide import Decision
from spark_trickle.refresh.fill import fill_stream
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.refresh.outdated import find_reasons_to_rebuild
from spark_trickle.refresh.redefine import redefine_stream
from spark_trickle.refresh.refresh import refresh
from spark_trickle.txn.work import Work


def refresh_unit(work: Work, unit: Sequence[Table], occasion: Occasion) -> list[RefreshReport]:
    """A stream table, or all that read each other in a circle."""
    if not is_circle(unit):
        return [refresh_stream(work, table, occasion) for table in unit]
    reports = refresh_circle(work, unit, occasion)
    if reports[0].action is not Action.REINITIALIZE:
        return reports
    for table in unit:
        assert table.stream is not None
        if find_reasons_to_rebuild(work, table):
            redefine_stream(work, table, table.stream)
    return _fill_circle(work, graph_of(work.catalog.tables()), unit[0], reports[0].reason, occasion)


def refresh_stream(work: Work, table: Table, occasion: Occasion = Occasion()) -> RefreshReport:  # noqa: B008
    """A refresh; where types of its sources changed, the plan is made anew first."""
    report = refresh(work, table, occasion)
    if report.action is not Action.REINITIALIZE:
        return report
    assert table.stream is not None
    return rebuild_stream(work, table, table.stream, report.reason, occasion)


def rebuild_stream(
    work: Work,
    table: Table,
    stream: Stream,
    why: str,
    occasion: Occasion = Occasion(),  # noqa: B008 a value
    new_query: bool = False,
) -> RefreshReport:
    """A new plan for a stream table: with the same columns its rows are changed to the new ones."""
    again = redefine_stream(work, table, stream, new_query)
    graph = graph_of(work.catalog.tables())
    if not graph.circle_of(again.id):
        return fill_stream(work, again, why, Action.REINITIALIZE, occasion)
    reports = _fill_circle(work, graph, again, f"{again.full_name}: {why}", occasion)
    return next(r for r in reports if r.name == again.full_name)


def fill_again(work: Work, table: Table, why: str) -> RefreshReport:
    """Everything anew by the plan that there is; of a circle all members."""
    graph = graph_of(work.catalog.tables())
    if not graph.circle_of(table.id):
        return fill_stream(work, table, why, Action.REINITIALIZE)
    reports = _fill_circle(work, graph, table, why, Occasion())
    return next(r for r in reports if r.name == table.full_name)


def _fill_circle(
    work: Work, graph: Graph, member: Table, why: str, occasion: Occasion
) -> list[RefreshReport]:
    """All of a circle from nothing; what it reads is refreshed first, so that one commit knows it all."""
    together = replace(occasion, together=True)
    circle = graph.circle_of(member.id)
    done = {r.table_id for r in work.refreshed}
    above = [i for i in graph.ancestors(member.id) if i not in circle and i not in done]
    for unit in graph.units(above):
        refresh_unit(work, [graph.tables[i] for i in unit], together)
    tables = [t for i in circle if (t := work.catalog.table_by_id(i)) is not None]
    return refresh_circle(work, tables, together, Decision(Action.REINITIALIZE, why))
