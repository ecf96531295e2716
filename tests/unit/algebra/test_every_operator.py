"""Whoever reads operators can read every one of them: a new class that one of them does not know fails here."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from spark_trickle.algebra.change_operators import (
    Added,
    ChangeOperator,
    Fixpoint,
    Fold,
    Half,
    Keys,
    Shaken,
    Signed,
    Terms,
    Touched,
    Trimmed,
)
from spark_trickle.algebra.explain import write_title, write_tree
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.keys import unique_key
from spark_trickle.algebra.operators import At, Join, Operator, Output, Project, Rows, Scan, column
from spark_trickle.algebra.prune import prune
from spark_trickle.algebra.recursion import find_obstacle, replace_by_start
from spark_trickle.algebra.references import NodeRef, Reference, RoundRef, TableRef
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.algebra.strategy import Cost, choose_strategy
from spark_trickle.algebra.validate import validate
from spark_trickle.arrow.evaluate import Evaluated, Lookup, evaluate_plan
from spark_trickle.arrow.reduce import Reducer
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.errors import InternalError
from spark_trickle.model.stream import Mode
from spark_trickle.model.table import WEIGHT
from spark_trickle.observe.auxiliary import purposes_of
from spark_trickle.plan.join_order import connect_joins, order_joins
from spark_trickle.plan.monotone import find_taking_operator, sources_kept_as_bags
from spark_trickle.plan.sizes import Sizes
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.plan.steps import with_steps
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.settings import Settings
from spark_trickle.sql.bind.translate import read_expression
from spark_trickle.sql.render.beside import render_beside, shows_only
from spark_trickle.sql.render.query import name_frame, render
from tests.laws.duck import duck_sql
from tests.unit.algebra.samples import (
    CHANGE,
    OF_CHANGES,
    OF_QUERIES,
    ROWS,
    SAMPLES,
    concrete_operators,
)

ALL = pytest.mark.parametrize("op", SAMPLES.values(), ids=SAMPLES)
QUERIES = pytest.mark.parametrize("op", OF_QUERIES, ids=lambda op: type(op).__name__)
CHANGES = pytest.mark.parametrize("op", OF_CHANGES, ids=lambda op: type(op).__name__)
TEXTS = pytest.mark.parametrize(
    "op", [op for op in SAMPLES.values() if not op.takes_rounds], ids=lambda op: type(op).__name__
)
ROUNDS = pytest.mark.parametrize(
    "op", [op for op in SAMPLES.values() if op.takes_rounds], ids=lambda op: type(op).__name__
)
AT_DRIVER = pytest.mark.parametrize(
    "op", [op for op in SAMPLES.values() if not isinstance(op, Terms)], ids=lambda op: type(op).__name__
)
EVERYTHING = frozenset((TableRef(1), TableRef(2)))


def test_every_operator_has_a_sample() -> None:
    assert {cls.__name__ for cls in concrete_operators()} == SAMPLES.keys()
    assert all(isinstance(op, ChangeOperator) for op in OF_CHANGES)
    assert not any(isinstance(op, ChangeOperator) for op in OF_QUERIES)


@ALL
def test_a_sample_is_valid_at_every_moment(op: Operator) -> None:
    validate(op)
    if isinstance(op, ChangeOperator):
        return
    for when in (At.OLD, At.NEW):
        validate(op.at(when))


@ALL
def test_it_gives_the_rows_that_it_says(op: Operator) -> None:
    if op.gives is Rows.ANY and op.inputs:
        assert op.weighted == any(child.weighted for child in op.inputs)
    elif op.inputs:
        assert op.weighted == (op.gives is Rows.CHANGE)


@ALL
def test_it_reads_the_rows_that_it_says(op: Operator) -> None:
    if op.reads is Rows.ANY:
        return
    first, *others = op.inputs
    other = Half(first, 1) if first.weighted else Signed(first, 1)
    with pytest.raises(InternalError, match=r"reads (a change as content|content as a change)"):
        op.with_inputs((other, *others))


@ALL
def test_it_takes_no_expressions_over_strangers(op: Operator) -> None:
    """When it is built, or before the next pass."""
    strange = {f.name: _with_strangers(getattr(op, f.name)) for f in fields(op)}
    if all(strange[f.name] == getattr(op, f.name) for f in fields(op)):
        return
    if isinstance(op, Added | Fold | Shaken):  # they only name their calls, which are computed further down
        strange = {"count": "stranger"}
    with pytest.raises(InternalError, match="names stranger"):
        validate(replace(op, **strange))


def _with_strangers(value: Any) -> Any:
    """The same with expressions over a column that nobody has."""
    if isinstance(value, Expr):
        return column("stranger")
    if isinstance(value, tuple):
        return tuple(map(_with_strangers, value))
    if is_dataclass(value) and not isinstance(value, Operator | type):
        return replace(value, **{f.name: _with_strangers(getattr(value, f.name)) for f in fields(value)})
    return value


# --- what passes make of it --------------------------------------------------------------------------


@QUERIES
def test_it_has_a_rule_for_its_change(op: Operator) -> None:
    node = Node(NodeRef(9), op)
    change = differentiate_node(op, node.own, EVERYTHING)
    if change is None:
        assert not op.sources
        return
    validate(change)
    assert change.weighted
    assert len(change.columns) == len(op.columns)


@QUERIES
def test_its_change_follows_from_that_of_its_input_or_from_its_own_rows(op: Operator) -> None:
    if op.keeps_rows and not op.maps_changes:
        with pytest.raises(InternalError, match=f"{type(op).__name__} keeps rows"):
            differentiate(op, EVERYTHING)
        return
    change = differentiate(op, EVERYTHING)
    assert change is None or change.weighted
    assert differentiate(op, frozenset()) is None
    if op.maps_changes:
        (content,) = op.inputs
        delta = differentiate(content, EVERYTHING)
        assert delta is not None
        assert change == op.with_inputs((delta,))


@QUERIES
def test_a_recursion_is_followed_through_it_if_it_maps_changes(op: Operator) -> None:
    rows = _read_last(op)
    step = Project(rows, (Output("x", column(rows.columns[0])), Output("y", column(rows.columns[-1]))))
    why = find_obstacle(Recursive(ROWS, step, RoundRef(2), distinct=True))
    assert (why is None) == (op.maps_changes or isinstance(op, Scan | Join)), why


def _read_last(op: Operator) -> Operator:
    """The same over the rows that a recursion found last, in place of its first table."""
    if isinstance(op, Scan):
        return replace(op, source=RoundRef(2)) if op.source == TableRef(1) else op
    return op.with_inputs(tuple(map(_read_last, op.inputs)))


@CHANGES
def test_a_change_has_no_change(op: Operator) -> None:
    with pytest.raises(InternalError, match=f"{type(op).__name__} stands in a change"):
        differentiate(op, EVERYTHING)


@ALL
def test_it_is_pruned(op: Operator) -> None:
    pruned = prune(op)
    validate(pruned)
    assert pruned.columns == op.columns


@QUERIES
def test_it_is_kept_as_json(op: Operator) -> None:
    assert load(dump((op,)), read_expression) == (op,)


@CHANGES
def test_a_change_is_never_kept(op: Operator) -> None:
    with pytest.raises(InternalError, match=f"{type(op).__name__} stands in a change, which is never kept"):
        dump((op,))


def test_a_plan_of_a_newer_version_is_refused() -> None:
    newer = dump((ROWS,)).replace('"Scan"', '"Skim"')
    with pytest.raises(InternalError, match='"Skim", which this version does not know'):
        load(newer, read_expression)


@ALL
def test_what_arranges_plans_leaves_a_valid_one(op: Operator) -> None:
    sizes = Sizes(lambda _: 10, lambda _: 1, lambda _: ("k",), 100)
    steps, rest = with_steps(op)
    for made in (connect_joins(op), order_joins(op, sizes), rest, *(s.plan for s in steps)):
        validate(made)
    assert rest.columns == connect_joins(op).columns == order_joins(op, sizes).columns == op.columns


@QUERIES
def test_a_node_is_made_of_it_if_it_keeps_rows(op: Operator) -> None:
    nodes = split_into_nodes(op)
    assert len(nodes) == (2 if op.keeps_rows and not op.shares_table else 1)
    assert nodes[-1].plan.columns == op.columns
    for node in nodes:
        validate(node.plan)


@QUERIES
def test_it_says_whether_it_takes_rows_away(op: Operator) -> None:
    words = find_taking_operator([Node(NodeRef(1), op)], EVERYTHING)
    assert words is None or not op.row_by_row


@QUERIES
def test_it_says_whether_rows_reach_the_result_as_often_as_they_come(op: Operator) -> None:
    repeated = sources_kept_as_bags([Node(NodeRef(1), op)], EVERYTHING)
    assert repeated <= op.sources
    if op.row_by_row:
        assert repeated == op.sources
    if op.rows_differ:
        assert not repeated


@QUERIES
def test_what_makes_it_dear_comes_with_advice(op: Operator) -> None:
    concerns = find_concerns([Node(NodeRef(1), op)], Mode.AUTO, Settings())
    assert all(c.reason and c.advice for c in concerns)
    assert not (op.row_by_row and concerns)


@CHANGES
def test_a_change_is_never_asked_whether_it_takes_rows_away(op: Operator) -> None:
    change = Node(NodeRef(1), op if op.sources & EVERYTHING else op.with_inputs((ROWS,)))
    with pytest.raises(InternalError, match="does not say whether it takes rows away"):
        find_taking_operator([change], EVERYTHING)


# --- what it means -----------------------------------------------------------------------------------


@TEXTS
def test_its_text_gives_its_columns_and_weights(op: Operator) -> None:
    con = duckdb.connect()
    for scan in (s for s in op.walk() if isinstance(s, Scan)):
        kinds = [*(f'"{c}" INTEGER' for _, c in scan.names), *(["_w INTEGER"] if scan.weighted else [])]
        con.execute(f'CREATE OR REPLACE TABLE "frame_{name_frame(scan)}" ({", ".join(kinds)})')
    found = [row[0] for row in con.execute(f"DESCRIBE {duck_sql(render(op))}").fetchall()]
    assert sorted(found) == sorted([*op.columns, *([WEIGHT] if op.weighted else [])])


@ROUNDS
def test_what_takes_rounds_has_no_text(op: Operator) -> None:
    with pytest.raises(InternalError, match=f"{type(op).__name__} has no text of its own"):
        render(op)
    steps, rest = with_steps(op)
    assert isinstance(steps[-1].plan, Fixpoint)
    assert render(rest)


def test_a_recursion_has_the_types_of_its_start() -> None:
    recursion = Project(SAMPLES["Recursive"], (Output("x", column("v")),))
    assert replace_by_start(recursion) == Project(ROWS, recursion.outputs)


@QUERIES
def test_it_is_shown_beside_a_node_or_refused(op: Operator) -> None:
    own = Scan(NodeRef(1), ROWS.names, At.OLD)
    result = _read_node(op)
    if shows_only(result, NodeRef(1)):
        assert all(f"`{c}`" in render_beside(CHANGE, own, result) for c in result.columns)
    else:
        with pytest.raises(InternalError, match="does not only show the rows of a node"):
            render_beside(CHANGE, own, result)


def _read_node(op: Operator) -> Operator:
    if isinstance(op, Scan):
        return replace(op, source=NodeRef(1))
    return op.with_inputs(tuple(map(_read_node, op.inputs)))


@dataclass(frozen=True)
class Memory:
    """Tables at the driver; of all the columns of a table there are some rows, or none."""

    content: bool = True
    rehearsal: bool = False

    def without_rows(self) -> Memory:
        return Memory(False, rehearsal=True)

    def read_change(self, source: Reference) -> pa.Table:
        rows = pa.table({"k": pa.array([1, 1], pa.int32()), "v": pa.array([1, 2], pa.int32())})
        return rows.append_column(WEIGHT, pa.array([1, -1], pa.int32())).slice(0, 2 if self.content else 0)

    def read_content(self, scan: Scan) -> pa.Table:
        kinds = {c: pa.int64() if c in ("s", "n", "c") else pa.int32() for _, c in scan.names}
        rows = pa.table({c: pa.array([1, 2], kind) for c, kind in kinds.items()})
        return rows.slice(0, 2 if self.content else 0)

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        return Refusal("not in memory")

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> Lookup | Refusal:
        return Refusal("not in memory")


@AT_DRIVER
def test_arrow_computes_what_claims_to_run_at_the_driver(op: Operator) -> None:
    """Terms have no rows of their own there: `Added` sums them as it makes them."""
    found = evaluate_plan(Memory(), op)
    assert isinstance(found, Evaluated) == all(part.runs_at_driver for part in op.walk())
    if isinstance(found, Refusal):
        assert found.reason.endswith("needs Spark")
    else:
        assert {*op.columns, *([WEIGHT] if op.weighted else [])} <= {*found.rows.column_names}


def test_terms_alone_take_spark() -> None:
    found = evaluate_plan(Memory(), SAMPLES["Terms"])
    assert found == Refusal("Terms needs Spark")


@ALL
def test_nothing_comes_of_nothing(op: Operator) -> None:
    """What claims to have no rows without those of its first input is left out, and is empty at the driver."""
    if not op.empty_without_input:
        return
    if op.runs_at_driver and not isinstance(op, Terms):
        found = evaluate_plan(Memory(content=False), op)
        assert isinstance(found, Evaluated)
        assert found.rows.num_rows == 0
    first, *others = op.inputs
    reducer = Reducer(Memory(content=False), lambda _: False)
    assert reducer.reduce(op.with_inputs((_emptied(first), *others))) is None


def _emptied(op: Operator) -> Operator:
    """The same with a source of which nothing is left."""
    if isinstance(op, Scan):
        nothing = Keys(Trimmed(CHANGE), (column("k"),))
        return Trimmed(op) if op.weighted else Touched(op, (column(op.columns[0]),), nothing)
    first, *others = op.inputs
    return op.with_inputs((_emptied(first), *others))


@ALL
def test_its_traits_agree_with_its_columns(op: Operator) -> None:
    if op.passes_columns or op.passes_rows:
        assert op.columns[: len(op.inputs[0].columns)] == op.inputs[0].columns
    if op.gives_keys:
        assert not op.weighted
    if op.shares_table:
        assert op.keeps_rows


@ALL
def test_a_unique_key_is_made_of_its_columns(op: Operator) -> None:
    key = unique_key(op, lambda _: ("k",))
    assert set(key) <= set(op.columns)
    if op.passes_rows:
        assert key == unique_key(ROWS, lambda _: ("k",))


# --- what people read --------------------------------------------------------------------------------


@ALL
def test_it_is_told_in_one_line(op: Operator) -> None:
    assert write_title(op)
    assert "\n" not in write_title(op)
    assert "frozenset" not in write_title(op)
    assert write_tree(op)[0] == write_title(op)


@QUERIES
def test_its_cost_is_told(op: Operator) -> None:
    """What treats rows one by one is linear; all others say how they are kept up to date."""
    told = choose_strategy.dispatch(type(op)) is not choose_strategy.dispatch(object)
    assert told == (not op.row_by_row)
    strategy = choose_strategy(op)
    assert strategy.how
    assert strategy.advice or strategy.cost is not Cost.ALL


@CHANGES
def test_a_change_has_no_strategy(op: Operator) -> None:
    with pytest.raises(InternalError, match=f"{type(op).__name__} has no strategy"):
        choose_strategy(op)


@QUERIES
def test_the_columns_of_its_table_have_a_purpose(op: Operator) -> None:
    if op.keeps_rows:
        assert all(purposes_of(op)[c] for c in op.columns)
