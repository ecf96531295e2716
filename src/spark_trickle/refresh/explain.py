"""Stream tables -> what they do and why, from the same values that the engine works with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from spark_trickle.algebra.change_operators import Fixpoint
from spark_trickle.algebra.explain import CountRows
from spark_trickle.algebra.explain import write_tree as list_tree
from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.algebra.references import NodeRef, Reference, TableRef
from spark_trickle.algebra.strategy import choose_strategy, find_cost
from spark_trickle.errors import TrickleError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.arrow import arrow_schema
from spark_trickle.model.execution import Engine
from spark_trickle.model.stream import Action, Mode, StreamState
from spark_trickle.model.table import Table
from spark_trickle.plan.pipeline import (
    CHANGE,
    FOR_SPARK,
    RENDER,
    Context,
    Reduce,
    Stage,
    Tree,
    keep_whole,
    plan_trees,
    run_passes,
)
from spark_trickle.plan.sizes import Sizes
from spark_trickle.plan.split import Node
from spark_trickle.plan.steps import with_steps
from spark_trickle.refresh.circle import decide_circle, find_first_changes, preview_first_turn, read_members
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.compile import compile_query, nodes_of
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.refresh.decide import Decision, decide_refresh
from spark_trickle.refresh.execute import NodeJob, PlannedJob, make_reducer, plan_for_spark
from spark_trickle.refresh.full import plan_in_full
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.inputs import Inputs, NodeChange
from spark_trickle.refresh.program import Changes, UnchangedNode, plan_change
from spark_trickle.refresh.refresh import find_changes, make_inputs, node_tables, read_facts, require_stream
from spark_trickle.refresh.sessions import choose_session
from spark_trickle.refresh.sizes import sizes_of_catalog
from spark_trickle.refresh.thresholds import Known, Threshold, list_thresholds
from spark_trickle.spark.frames import local_frame
from spark_trickle.sql.dialect.moments import list_moments
from spark_trickle.sql.render.query import render
from spark_trickle.txn.work import Work

Line = tuple[str, str]


def explain_query(work: Work, query: str) -> list[Line]:
    """A query as it would be kept: its nodes, their operators and what they cost."""
    compiled = compile_query(work, query, work.place.schema)
    concerns = find_concerns(compiled.nodes, Mode.AUTO, work.place.settings)
    lines = [("warning", concern.text) for concern in concerns]
    return lines + [
        line for node in compiled.nodes for line in _describe_node(work, node, node is compiled.nodes[-1])
    ]


def explain_rewrite(work: Work, query: str) -> list[tuple[int, str, str, str]]:
    """What every pass makes of a query: its place, its name, what it did, and the trees after it.

    The passes are those of a definition, then those of a refresh after few rows of every source changed.
    """
    compiled = compile_query(work, query, work.place.schema)
    context = Context(sizes=sizes_of_catalog(work))
    stages = (*compiled.stages, *run_passes(compiled.stages[-1], (*CHANGE, *FOR_SPARK), context)[1:])
    rows = [*_list_stages(work, stages, partial(_count_stored_rows, context.sizes))]
    texts = [line for tree in stages[-1].trees for line in _render_plan(tree.label, tree.plan)]
    rows.append(("render", RENDER, "\n".join(f"{name}: {text}" for name, text in texts)))
    return [(n, *row) for n, row in enumerate(rows, start=1)]


def _list_stages(work: Work, stages: Sequence[Stage], counted: CountRows) -> Iterator[tuple[str, str, str]]:
    """The name of each stage, what it did, and what it left; with the sizes that the passes went by."""
    before = None
    for stage in stages:
        lines = [
            f"{tree.label}: {text}" if n == 0 else f"  {text}"
            for tree in stage.trees
            for n, text in enumerate(list_tree(tree.plan, partial(_name_source, work), counted))
        ]
        yield stage.name, "nothing to do" if stage.trees == before else stage.meaning, "\n".join(lines)
        before = stage.trees


def _count_stored_rows(sizes: Sizes, scan: Scan) -> int | None:
    """The rows behind a scan of a query that is not stored yet: its nodes are empty, and nothing changed."""
    is_stored = isinstance(scan.source, TableRef) and scan.moment is not At.DELTA
    return sizes.rows(scan.source) if is_stored else None


def _count_rows(sizes: Sizes, scan: Scan) -> int | None:
    """The rows behind a scan; how many come of another plan is known once that is computed."""
    if scan.moment is At.DELTA:
        return sizes.changed(scan.source) if isinstance(scan.source, TableRef) else None
    return sizes.rows(scan.source) if isinstance(scan.source, TableRef | NodeRef) else None


def _render_plan(name: str, plan: Operator) -> list[Line]:
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
    lines += [(f"threshold {t.setting}", t.text) for t in _read_thresholds(work, table, nodes)]
    tables = node_tables(work, table)
    for node in nodes:
        lines.append((f"{node.name} table", tables[node.name].full_name))
        lines += _describe_node(work, node, node is nodes[-1])
        for source in sorted(node.sources, key=str):
            alone = Context(frozenset((source,)))
            for tree in plan_trees((Tree(node.plan, node.name),), CHANGE[:1], alone):
                lines += _describe_delta(
                    f"{node.name} delta when {_name_source(work, source)} changes", tree.plan
                )
    return [*lines, *_describe_next_refresh(work, table)]


def _describe_next_refresh(work: Work, table: Table) -> list[Line]:
    """What the next refresh would run: its passes, with the sizes that it would have now.

    Whether a node really changes is known once it is computed: those that read it are shown as if it did.
    """
    with open_reader(work.place.warehouse.engine) as connection:
        state = states.read_state(connection, table.id)
    decision = _preview_decision(work, table, state)
    if decision.action in (Action.NO_DATA, Action.REINITIALIZE):
        return []
    session = choose_session(work.place, require_stream(table).plan)
    lines: list[Line] = [] if session.is_own else [("next: session", session.reason)]
    anew, clock = decision.action is not Action.DIFFERENTIAL, Clock()
    if circle := _list_circle(work, table):
        members = read_members(work, circle)
        member = next(m for m in members if m.table.id == table.id)
        turn = preview_first_turn(work, members, member, anew)
        told = _describe_all(turn) if anew else _describe_change(turn, find_first_changes(turn, member))
        return [*lines, ("next", _TURNS), *told]
    facts = read_facts(work, table, state.knows)
    inputs = make_inputs(work, table, state.knows, facts, clock)
    if anew:
        return [*lines, *_describe_all(inputs)]
    return [*lines, *_describe_change(inputs, find_changes(inputs, facts, decision, clock))]


def _describe_all(inputs: Inputs) -> Iterator[Line]:
    for node in nodes_of(inputs.stream.plan):
        yield from _describe_job(plan_in_full(inputs, node, Clock()))


_TURNS = (
    "the stream tables of the circle take turns until a round brings nothing new; "
    "this is the first turn, if nothing came of the turns before it"
)


def _list_circle(work: Work, table: Table) -> list[Table]:
    """The stream tables of the circle that a stream table belongs to, if it does."""
    graph = graph_of(work.catalog.tables())
    return [graph.tables[i] for i in graph.circle_of(table.id)]


def _describe_change(inputs: Inputs, changes: Changes) -> Iterator[Line]:
    if changes.remark:
        yield "next", changes.remark
    shown: Node | None = None
    for node in nodes_of(inputs.stream.plan):
        if node == shown:
            yield f"{node.name} next: runs", "in the same job as the node before it"
            continue
        planned = plan_change(inputs, node, changes, Clock())
        if isinstance(planned, UnchangedNode):
            continue
        yield from _describe_job(planned)
        job, engine = planned.job, planned.placement.engine
        shown = job.shown_by if engine is Engine.ONE_TASK else None
        changes = replace(changes, of=changes.of | {node.name})
        if engine.stores_at_driver:
            inputs = _assume_done(inputs, job)


def _describe_job(planned: PlannedJob) -> Iterator[Line]:
    """The stages of a node, for the engine that gets it, and where it runs."""
    job, placement = planned.job, planned.placement
    name, work = str(job.node.name), job.inputs.work
    engine = placement.engine
    planning = job.planning(engine)
    stages = planning.list_stages()
    if engine is not Engine.DRIVER:
        stages += plan_for_spark(job, planning, _preview_reduction(job, engine.takes_few)).list_stages()[1:]
    counted = partial(_count_rows, planning.context.sizes)
    for stage, done, text in list(_list_stages(work, stages, counted))[1:]:
        yield f"{name} next: {stage}", done if done == "nothing to do" else text or "nothing is left"
    yield f"{name} next: runs", f"{placement.engine}: {placement.reason}"
    if (instead := placement.fallback) is not None:
        yield f"{name} next: otherwise", f"{instead.engine}: {instead.reason}"


def _preview_reduction(job: NodeJob, few: bool) -> Reduce:
    """What the driver would leave of the plan for Spark; the rows of nodes before it are not known yet."""
    return make_reducer(job.inputs).reduce if few and not job.inputs.changes else keep_whole


def _assume_done(inputs: Inputs, job: NodeJob) -> Inputs:
    """The change of a node is at the driver for those that follow."""
    rows = arrow_schema(job.table).empty_table()
    frame = partial(local_frame, inputs.work.place.spark, job.table, rows)
    return inputs.with_change(job.node.name, NodeChange(frame, 0, rows))


def _describe_delta(label: str, delta: Operator) -> list[Line]:
    """The SQL of a change; what takes rounds is told plan by plan."""
    if not any(op.takes_rounds for op in delta.walk()):
        return [(label, render(delta))]
    steps, rest = with_steps(delta)
    first = [(f"{label}: {name}", text) for s in steps for name, text in _render_plan(str(s.name), s.plan)]
    return [*first, (label, render(rest))]


def explain_mode(work: Work, table: Table) -> list[Line]:
    """The mode that was asked for, and what a refresh would do now."""
    stream = table.stream
    assert stream is not None
    with open_reader(work.place.warehouse.engine) as connection:
        state = states.read_state(connection, table.id)
    decision = _preview_decision(work, table, state)
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


def _preview_decision(work: Work, table: Table, state: StreamState) -> Decision:
    if circle := _list_circle(work, table):
        return decide_circle(work, read_members(work, circle))
    return decide_refresh(read_facts(work, table, state.knows), work.place.settings)


def _describe_node(work: Work, node: Node, last: bool) -> list[Line]:
    name = node.name
    lines: list[Line] = [(f"{name} role", "the stream table" if last else "inner table")]
    lines.append((f"{name} cost", find_cost(node.plan)))
    lines += [(f"{name} plan", text) for text in list_tree(node.plan, partial(_name_source, work))]
    for op in node.plan.walk():
        if not op.row_by_row:
            lines.append((f"{name} {type(op).__name__.lower()}", choose_strategy(op).how))
    return lines


def _read_thresholds(work: Work, table: Table, nodes: Sequence[Node]) -> list[Threshold]:
    stream = table.stream
    assert stream is not None
    with open_reader(work.place.warehouse.engine) as connection:
        state = states.read_state(connection, table.id)
    facts = read_facts(work, table, state.knows)
    circle = bool(_list_circle(work, table))
    known = Known(stream, nodes, facts, work.files(table), state.errors_in_a_row, circle)
    return list_thresholds(known, work.place.settings)


def _name_source(work: Work, source: Reference) -> str:
    """A table as users call it."""
    table = work.catalog.table_by_id(source.id) if isinstance(source, TableRef) else None
    return table.full_name if table is not None else str(source)


def validate_query(work: Work, query: str) -> list[tuple[str, str, str]]:
    """Whether a query can be a stream table: check, result, detail."""
    try:
        compiled = compile_query(work, query, work.place.schema)
    except TrickleError as error:
        return [("supported", "error", f"{error.message}. {error.hint}")]
    found: list[tuple[str, str, str]] = []
    moments = list_moments(n.plan for n in compiled.nodes)
    if moments:
        names = ", ".join(f"{m}()" for m in moments)
        found.append(("deterministic", "warning", f"{names}: every refresh computes everything"))
    concerns = find_concerns(compiled.nodes, Mode.AUTO, work.place.settings)
    found += [(c.subject, "warning", f"{c.reason}. {c.advice}") for c in concerns if not moments]
    found.append(("supported", "ok", f"{len(compiled.nodes)} tables, {len(compiled.sources)} sources"))
    dearest = max((find_cost(n.plan) for n in compiled.nodes), key=lambda c: c.rank)
    mode = "FULL" if moments else "DIFFERENTIAL"
    return [*found, ("refresh mode", "ok", mode), ("cost of a refresh", "ok", dearest)]
