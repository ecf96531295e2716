"""The query of a stream table -> its nodes, checked against what Spark makes of the query itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from spark_trickle.algebra.operators import Operator, Output, Project, Scan, column
from spark_trickle.algebra.recursion import replace_by_start
from spark_trickle.algebra.references import NodeRef, TableRef
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.errors import (
    InternalError,
    InvalidDefinitionError,
    SourceLostError,
    SqlSyntaxError,
    TrickleError,
)
from spark_trickle.model.catalog import Catalog
from spark_trickle.model.stream import ColumnUse, KnownNames, Source
from spark_trickle.model.table import Table, View
from spark_trickle.model.types import sql_name
from spark_trickle.plan.pipeline import BIND, DEFINITION, Stage, Tree, Trees, run_passes
from spark_trickle.plan.split import Node, number_nodes
from spark_trickle.refresh.query_names import TextsRead, Wording
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.read import empty_frame
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import render_type
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import Bound, Find, ReadableTable, SourceView
from spark_trickle.sql.bind.translate import read_expression
from spark_trickle.sql.dialect.additions import may_be_taken, without_additions
from spark_trickle.sql.dialect.spark import refuse_large_query
from spark_trickle.sql.render.query import name_frame, render
from spark_trickle.txn.names import check_column_count
from spark_trickle.txn.query import analyze_query
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Compiled:
    """Everything that a definition fixes for good."""

    nodes: tuple[Node, ...]
    sources: tuple[Source, ...]
    stages: tuple[Stage, ...]  # what each pass left, the nodes last
    views: tuple[tuple[int, str], ...]
    known: tuple[KnownNames, ...]

    @property
    def text(self) -> str:
        return dump(tuple(n.plan for n in self.nodes))


def compile_query(
    work: Work,
    query: str,
    home: str,
    names: tuple[str, ...] = (),
    exact_floats: bool = False,
    wording: Wording | None = None,
) -> Compiled:
    """Spark judges a query first; what it cannot run, such as > ANY (…), may still be a plan of ours.

    `wording` tells what names in the query mean, where that is not what they mean now.
    """
    refuse_large_query(query)
    wording = wording or Wording(work.catalog, work.catalog)
    named, planned = work.with_catalog(wording.texts), work.with_catalog(wording.plan)
    answer = _ask_spark(named, query, home)
    if not isinstance(answer, TrickleError):
        check_column_count(len(answer.columns))
    elif not may_be_taken(answer):
        _check_grammar(named, query, home, answer)
    try:
        read = TextsRead()
        finder = _make_finder(wording.texts, wording.plan, read)
        found = bind(query, finder, lambda op: _read_types(planned, op), home, exact_floats)
    except TrickleError:
        if isinstance(answer, TrickleError):
            raise answer from None
        raise
    written = names or _choose_names(found, answer)
    _check_names(written, len(found.outputs))
    root = Project(
        found.plan,
        tuple(Output(name, column(c)) for name, c in zip(written, found.columns, strict=True)),
    )
    stages = run_passes(Stage("bind", BIND, (Tree(root),)), DEFINITION)
    trees, whole = stages[-1].trees, stages[-2].trees[0].plan  # the nodes; the plan before it was split
    if isinstance(answer, TrickleError):
        _check_plan(planned, whole, answer)
    else:
        _check_types(planned, answer, whole)
    nodes = number_nodes(tree.plan for tree in trees)
    sources = _collect_sources(work, wording.plan, trees)
    return Compiled(nodes, sources, stages, tuple(sorted(read.views.items())), read.known)


def _ask_spark(work: Work, query: str, home: str) -> Frame | TrickleError:
    """What Spark makes of a query: a DataFrame, which no job has computed, or why it refuses."""
    try:
        return analyze_query(work, query, schema=home)
    except TrickleError as refusal:
        return refusal


def _check_grammar(work: Work, query: str, home: str, refusal: TrickleError) -> None:
    """What is left without our additions to its grammar, Spark must be able to read."""
    rest = without_additions(query)
    if rest == query:
        raise refusal
    if isinstance(_ask_spark(work, rest, home), SqlSyntaxError):
        raise refusal


def _choose_names(found: Bound, answer: Frame | TrickleError) -> tuple[str, ...]:
    """Names as Spark has them; it would also name what has none, by its text."""
    own = tuple(n for n, _ in found.outputs)
    if isinstance(answer, TrickleError) or len(answer.columns) != len(own):
        return own
    return tuple(theirs if mine else "" for mine, theirs in zip(own, answer.columns, strict=True))


def _check_names(names: tuple[str, ...], columns: int) -> None:
    if len(names) != columns:
        raise InvalidDefinitionError(
            f"{len(names)} names for {columns} columns", "Name every column of the query."
        )
    lowered = [n.lower() for n in names]
    for position, n in enumerate(names, start=1):
        if not n:
            raise InvalidDefinitionError(
                f"column {position} of the query has no name", "Give it one with AS, for example AS total."
            )
        if lowered.count(n.lower()) > 1:
            raise InvalidDefinitionError(
                f'the query has more than one column "{n}"', f"Give one of them another name: … AS {n}_2."
            )


def _check_plan(work: Work, plan: Operator, refusal: TrickleError) -> None:
    """What Spark refused must at least be a plan that it takes."""
    try:
        _read_types(work, plan)
    except TrickleError:
        raise refusal from None


def _check_types(work: Work, asked: Frame, plan: Operator) -> None:
    """A difference would be our mistake: better no stream table than one with other values."""
    wanted = [render_type(f.dataType) for f in asked.schema.fields]
    found = list(_read_types(work, plan).values())
    if wanted != found:
        raise InternalError(f"the plan has the types {found}, Spark's has {wanted}")


def _make_finder(texts: Catalog, plan: Catalog, read: TextsRead, view_id: int | None = None) -> Find:
    """What is behind a name in a text; what it finds is noted."""

    def find(parts: tuple[str, ...], home: str) -> ReadableTable | SourceView | None:
        relation = texts.find(parts, home)
        match relation:
            case Table():
                read.note_table(view_id, relation)
                planned = plan.table_by_id(relation.id)
                assert planned is not None
                stored = {c.id: c.name for c in planned.columns}
                names = tuple(stored[c.id] for c in relation.columns)
                return ReadableTable(TableRef(relation.id), relation.column_names, names)
            case View():
                read.views[relation.id] = relation.full_name
                inside = _make_finder(texts.enter_view(relation), plan, read, relation.id)
                return SourceView(
                    relation.sql, relation.column_names, relation.source_columns, relation.home, inside
                )
        return None

    return find


def _read_types(work: Work, op: Operator) -> Mapping[str, str]:
    return {f.name: render_type(f.dataType) for f in analyze_plan(work, op, {}).schema.fields}


def analyze_plan(work: Work, op: Operator, nodes: Mapping[NodeRef, Table]) -> Frame:
    """A tree over empty tables: Spark's analyzer tells its types, and no job runs."""
    shape = replace_by_start(op)
    frames = {}
    for scan in (part for part in shape.walk() if isinstance(part, Scan)):
        match scan.source:
            case TableRef(table_id):
                table = work.catalog.table_by_id(table_id)
                assert table is not None
            case NodeRef() as node:
                table = nodes[node]
            case _:  # rows that a recursion found last, whose types are those of its start
                continue
        frames[name_frame(scan)] = empty_frame(work.place.spark, table)
    return run_sql(work.place.spark, render(shape), available=(), **frames)


def list_table_scans(plan: Operator) -> Iterator[tuple[int, Scan]]:
    """Each scan of a table and the id of the table; no scans of the rows that a recursion found last."""
    for op in plan.walk():
        if isinstance(op, Scan) and isinstance(op.source, TableRef):
            yield op.source.id, op


def _collect_sources(work: Work, plan: Catalog, trees: Trees) -> tuple[Source, ...]:
    used: dict[int, dict[str, ColumnUse]] = {}
    for table_id, scan in (s for tree in trees for s in list_table_scans(tree.plan)):
        planned, table = (c.table_by_id(table_id) for c in (plan, work.catalog))
        assert planned is not None
        assert table is not None
        columns = used.setdefault(table.id, {})
        for _, name in scan.names:
            known = planned.column(name)
            if all(c.id != known.id for c in table.columns):
                raise SourceLostError(table.full_name, f'has lost the column "{known.name}"')
            columns[name] = ColumnUse(name, known.id, sql_name(known.type))
    names = {t.id: (t.schema, t.name) for t in work.catalog.tables()}
    return tuple(
        Source(i, tuple(columns[name] for name in sorted(columns)), names[i])
        for i, columns in sorted(used.items())
    )


# --- programs ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)  # a plan is small: their number is bound enough
def nodes_of(text: str) -> tuple[Node, ...]:
    """The nodes of a stored plan."""
    return number_nodes(load(text, read_expression))
