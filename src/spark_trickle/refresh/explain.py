"""Stream tables -> what they do and why, from the same values that the engine works with."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.algebra.change_operators import Fixpoint
from spark_trickle.algebra.explain import cost, strategy, tree
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.errors import TrickleError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.model.stream import Mode, StreamState
from spark_trickle.model.table import Table
from spark_trickle.plan.pipeline import CHANGE, RENDER, run_passes
from spark_trickle.plan.split import Node
from spark_trickle.plan.steps import with_steps
from spark_trickle.refresh.circle import decide_circle, members_of
from spark_trickle.refresh.compile import compile_query, delta_of, nodes_of
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.refresh.decide import Decision, decide
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.refresh import known_facts, node_tables
from spark_trickle.refresh.thresholds import Known, Threshold, list_thresholds
from spark_trickle.sql.dialect.moments import moments_of
from spark_trickle.sql.render.query import render
from spark_trickle.txn.work import Work

Line = tuple[str, str]


def explain_query(work: Work, query: str) -> list[Line]:
    """A query as it would be kept: its nodes, their operators and what they cost."""
    compiled = compile_query(work, query, work.place.schema)
    concerns = find_concerns(compiled.nodes, Mode.AUTO, work.place.settings)
    lines = [("warning", concern.text) for concern in concerns]
    return lines + [
        line for node in compiled.nodes for line in _node_lines(work, node, node is compiled.nodes[-1])
    ]


def explain_rewrite(work: Work, query: str) -> list[tuple[int, str, str, str]]:
    """What every pass makes of a query: its place, its name, what it did, and the trees after it."""
    compiled = compile_query(work, query, work.place.schema)
    stages = (*compiled.stages, *run_passes(compiled.stages[-1], CHANGE)[1:])
    rows: list[tuple[str, str, str]] = []
    before = None
    for stage in stages:
        lines = [
            f"{name}: {_with_names(work, text)}" if n == 0 else f"  {_with_names(work, text)}"
            for name, plan in stage.trees
            for n, text in enumerate(tree(plan))
        ]
        done = "nothing to do" if stage.trees == before else stage.meaning
        rows.append((stage.name, done, "\n".join(lines)))
        before = stage.trees
    texts = [line for name, plan in stages[-1].trees for line in _rendered(name, plan)]
    rows.append(("render", RENDER, "\n".join(f"{name}: {text}" for name, text in texts)))
    return [(n, *row) for n, row in enumerate(rows, start=1)]


def _rendered(name: str, plan: Operator) -> list[Line]:
    if not isinstance(plan, Fixpoint):
        return [(name, render(plan))]
    return [*((f"{name} {part}", render(p)) for part, p in plan.plans()), (name, render(plan.result))]


def explain_stream(work: Work, table: Table) -> list[Line]:
    stream = table.stream
    assert stream is not None
    lines: list[Line] = [("name", table.full_name), ("query", stream.query), ("refresh mode", stream.mode)]
    lines += explain_mode(work, table)[1:]
    nodes = nodes_of(stream.plan)
    concerns = find_concerns(nodes, stream.mode, work.place.settings)
    lines += [("warning", concern.text) for concern in concerns]
    lines += [(f"threshold {t.setting}", t.text) for t in _thresholds(work, table, nodes)]
    tables = node_tables(work, table)
    for number, node in enumerate(nodes):
        lines.append((f"{node.name} table", tables[node.name].full_name))
        lines += _node_lines(work, node, node is nodes[-1])
        for source in sorted(node.sources):
            delta = delta_of(stream.plan, number, frozenset((source,)))
            if delta is not None:
                lines += _delta_lines(f"{node.name} delta when {_named(work, source)} changes", delta)
    return lines


def _delta_lines(label: str, delta: Operator) -> list[Line]:
    """The SQL of a change; what takes rounds is told plan by plan."""
    if not any(isinstance(op, Fixpoint | Recursive) for op in delta.walk()):
        return [(label, render(delta))]
    steps, rest = with_steps(delta)
    first = [(f"{label}: {name}", text) for s in steps for name, text in _rendered(s.name, s.plan)]
    return [*first, (label, render(rest))]


def explain_mode(work: Work, table: Table) -> list[Line]:
    """The mode that was asked for, and what a refresh would do now."""
    stream = table.stream
    assert stream is not None
    with reading(work.place.warehouse.engine) as connection:
        state = states.state(connection, table.id)
    decision = _decision(work, table, state)
    last = states.last_report(work.place.warehouse.engine, table.id, table.full_name)
    lines: list[Line] = [
        ("configured mode", stream.mode),
        ("status", state.status),
        ("exact as of snapshot", "never" if state.frontier is None else str(state.frontier)),
        ("next refresh", decision.action),
        ("reason", decision.reason),
    ]
    if state.error:
        lines.append(("last error", state.error))
    if last is not None:
        lines += [("last refresh", last.action), ("last reason", last.reason)]
    return lines


def _decision(work: Work, table: Table, state: StreamState) -> Decision:
    graph = graph_of(work.catalog.tables())
    if circle := graph.circle_of(table.id):
        return decide_circle(work, members_of(work, [graph.tables[i] for i in circle]))
    return decide(known_facts(work, table, state.knows), work.place.settings)


def _node_lines(work: Work, node: Node, last: bool) -> list[Line]:
    name = node.name
    lines: list[Line] = [(f"{name} role", "the stream table" if last else "inner table")]
    lines.append((f"{name} cost", cost(node.plan)))
    for text in tree(node.plan):
        lines.append((f"{name} plan", _with_names(work, text)))
    for op in node.plan.walk():
        if not op.row_by_row:
            lines.append((f"{name} {type(op).__name__.lower()}", strategy(op)[1]))
    return lines


def _thresholds(work: Work, table: Table, nodes: Sequence[Node]) -> list[Threshold]:
    stream = table.stream
    assert stream is not None
    with reading(work.place.warehouse.engine) as connection:
        state = states.state(connection, table.id)
    facts = known_facts(work, table, state.knows)
    circle = bool(graph_of(work.catalog.tables()).circle_of(table.id))
    known = Known(stream, nodes, facts, work.files(table), state.errors_in_a_row, circle)
    return list_thresholds(known, work.place.settings)


def _named(work: Work, source: str) -> str:
    if not source.startswith("t"):
        return source
    table = work.catalog.table_by_id(int(source[1:]))
    return table.full_name if table is not None else source


def _with_names(work: Work, text: str) -> str:
    if not text.lstrip().startswith("Scan t"):
        return text
    start, _, rest = text.partition("Scan ")
    source, _, columns = rest.partition(" ")
    return f"{start}Scan {_named(work, source)} {columns}"


def validate(work: Work, query: str) -> list[tuple[str, str, str]]:
    """Whether a query can be a stream table: check, result, detail."""
    try:
        compiled = compile_query(work, query, work.place.schema)
    except TrickleError as error:
        return [("supported", "error", f"{error.message}. {error.hint}")]
    found: list[tuple[str, str, str]] = []
    moments = moments_of(n.plan for n in compiled.nodes)
    if moments:
        names = ", ".join(f"{m}()" for m in moments)
        found.append(("deterministic", "warning", f"{names}: refreshed in full every time"))
    concerns = find_concerns(compiled.nodes, Mode.AUTO, work.place.settings)
    found += [(c.subject, "warning", f"{c.reason}. {c.advice}") for c in concerns if not moments]
    found.append(("supported", "ok", f"{len(compiled.nodes)} tables, {len(compiled.sources)} sources"))
    dearest = max((cost(n.plan) for n in compiled.nodes), key=lambda c: c.rank)
    mode = "FULL" if moments else "DIFFERENTIAL"
    return [*found, ("refresh mode", "ok", mode), ("cost of a refresh", "ok", dearest)]
