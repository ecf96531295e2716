"""Operators that make no sense are refused: when they are built, or when a pass has left them in a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spark_trickle.algebra.change_operators import (
    Added,
    Assign,
    Fixpoint,
    Half,
    Keys,
    Net,
    Partial,
    Rounds,
    Shaken,
    Signed,
    Terms,
    Touched,
    Unfit,
    Within,
)
from spark_trickle.algebra.operators import (
    At,
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    Scan,
    SetKind,
    SetOperation,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import RoundPart, RoundRef, TableRef
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Recursive, TopK, Window
from spark_trickle.algebra.validate import validate
from spark_trickle.errors import InternalError
from spark_trickle.plan.pipeline import DEFINITION, Stage, Tree, run_passes
from tests.unit.algebra.samples import (
    CHANGE,
    FOUND,
    KEY,
    LAST,
    LEAST,
    ORDER,
    OTHERS,
    OWN_EXTREMA,
    OWN_SUMS,
    PARTIAL,
    ROWS,
    SAMPLES,
    STEP,
    TIES,
    TOTAL,
    TOUCHED_KEYS,
    text,
)

NARROW = Scan(TableRef(3), (("z", "z"),))
PAIR = (KeyPair(column("k"), column("l")),)
KEY_AS_K = (Output("k", column("v")),)
RANKED = (Output("r", text("rank() OVER (PARTITION BY `z`)", "z")),)

NEVER_BUILT: dict[str, tuple[Callable[[], Operator], str]] = {
    "a scan with one name for two columns": (
        lambda: Scan(TableRef(1), (("k", "k"), ("k", "v"))),
        "one name: k",
    ),
    "a row that is too short": (lambda: Constant(("x", "y"), ((text("1"),),)), "another width"),
    "two outputs of one name": (lambda: Project(ROWS, (*KEY, *KEY)), "one name: g"),
    "a join with itself": (lambda: Join(ROWS, ROWS, JoinKind.INNER), "one name: k, v"),
    "a semi join with itself": (lambda: Join(ROWS, ROWS, JoinKind.SEMI), "one name: k, v"),
    "a mark without a name": (lambda: Join(ROWS, OTHERS, JoinKind.MARK, PAIR), "mark"),
    "a mark for nothing": (lambda: Join(ROWS, OTHERS, JoinKind.LEFT, PAIR, mark="m"), "mark"),
    "a broadcast of kept rows": (
        lambda: Join(ROWS, OTHERS, JoinKind.LEFT, PAIR, broadcast=True),
        "broadcast",
    ),
    "a count called like a key": (lambda: Aggregate(ROWS, KEY, (), "g"), "one name: g"),
    "ties of nothing": (lambda: Aggregate(ROWS, KEY, (replace(TOTAL, ties_of="m"),), "n"), "names m"),
    "no parts": (lambda: UnionAll(()), "no parts"),
    "parts of different widths": (lambda: UnionAll((ROWS, NARROW)), "different widths"),
    "sides of different widths": (lambda: SetOperation(ROWS, NARROW, SetKind.EXCEPT_ALL), "different widths"),
    "less than no rows": (lambda: TopK(ROWS, ORDER, -1), "below zero"),
    "a buffer that is too small": (lambda: Buffer(ROWS, ORDER, 4, 2), "less than it needs"),
    "a generator that hides a column": (
        lambda: Generate(ROWS, text("explode(array(1))"), ("k",)),
        "one name: k",
    ),
    "a step of another width": (lambda: Recursive(ROWS, NARROW, RoundRef(1), True), "another width"),
    "no sign": (lambda: Signed(ROWS, 0), "sign 0"),
    "half of what": (lambda: Half(CHANGE, 2), "sign 2"),
    "keys of another width": (lambda: Touched(ROWS, (column("k"),), Keys(OTHERS, ())), "other keys"),
    "rows for keys": (lambda: Touched(ROWS, (column("k"), column("v")), OTHERS), "other keys"),
    "sums that are not stored": (
        lambda: Added(Terms(CHANGE, KEY, (TOTAL,), "n"), OTHERS, ("g",), (TOTAL,), "n"),
        "names g, n, s",
    ),
    "stored sums that nothing is added to": (
        lambda: Added(Terms(CHANGE, KEY, (), "n"), OWN_SUMS, ("g",), (TOTAL,), "n"),
        "names s",
    ),
    "a buffer without room": (lambda: Unfit(CHANGE, ROWS, 4, 2), "room for less"),
    "keys on the wrong sides": (
        lambda: Join(ROWS, OTHERS, JoinKind.INNER, (KeyPair(column("l"), column("k")),)),
        "other side: l",
    ),
    "a mark called like a column": (lambda: Join(ROWS, OTHERS, JoinKind.MARK, PAIR, mark="k"), "one name: k"),
    "no rows of values": (lambda: Constant(("x",), ()), "no rows"),
    "values without columns": (lambda: Constant((), ((),)), "rows of nothing"),
    "a window without functions": (lambda: Window(ROWS, (), ()), "computes nothing"),
    "a window that hides a column": (lambda: Window(ROWS, (), KEY_AS_K), "one name: k"),
    "a buffer without order": (lambda: Buffer(ROWS, (), 1, 2), "no order"),
    "an offset below zero": (lambda: TopK(ROWS, ORDER, 1, -1), "below zero"),
    "a recursion that starts with itself": (
        lambda: Recursive(LAST, STEP, RoundRef(1), True),
        "starts with the rows that it finds",
    ),
    "touched strangers": (lambda: Touched(ROWS, (column("l"),), TOUCHED_KEYS), "names l"),
    "keys of strangers": (lambda: Keys(CHANGE, (column("l"),)), "names l"),
    "terms of strangers": (lambda: Terms(OTHERS.at(At.DELTA), (), (TOTAL,), "n"), "names v"),
    "sums of strangers": (lambda: Partial(OTHERS.at(At.DELTA), (), (TOTAL,), "n"), "names v"),
    "a buffer of other rows": (lambda: Within(CHANGE, OTHERS, ORDER, 1), "names k, v"),
    "a buffer with an order of strangers": (
        lambda: Within(OTHERS.at(At.DELTA), OTHERS, ORDER, 1),
        "names k, v",
    ),
    "a buffer that ends nowhere": (lambda: Within(CHANGE, ROWS, (), 1), "no last row"),
    "an extremum of a sum": (
        lambda: Shaken(PARTIAL, OWN_EXTREMA, ("g",), (TIES,), (TIES,), "n"),
        "has no extremum",
    ),
    "ties of a sum": (
        lambda: Shaken(PARTIAL, OWN_EXTREMA, ("g",), (LEAST,), (LEAST,), "n"),
        "no extremum has",
    ),
    "counts of no groups": (lambda: replace(SAMPLES["Counted"], input=ROWS), "no groups"),
    "a change beside content": (lambda: UnionAll((CHANGE, OTHERS)), "adds content to a change"),
    "a change with a change": (
        lambda: Join(CHANGE, OTHERS.at(At.DELTA), JoinKind.INNER),
        "joins a change",
    ),
    "an outer join of a change on its right": (
        lambda: Join(OTHERS, CHANGE, JoinKind.LEFT),
        "beside its first input",
    ),
    "a full join of a change": (lambda: Join(CHANGE, OTHERS, JoinKind.FULL), "keeps rows of both sides"),
    "groups of a change": (lambda: Aggregate(CHANGE, KEY, (), "n"), "reads a change as content"),
    "net content": (lambda: Net(ROWS), "reads content as a change"),
    "keys with weights": (
        lambda: Touched(ROWS, (column("k"),), Signed(Keys(OTHERS, (column("l"),)), 1)),
        "beside its first input",
    ),
    "sums with weights": (lambda: Added(CHANGE, OWN_SUMS, ("g",), (TOTAL,), "n"), "which are no sums"),
    "content on one way": (lambda: Fixpoint((), FOUND, CHANGE), "has content on one way"),
    "another way to other columns": (lambda: Fixpoint((), FOUND, OTHERS), "other columns"),
}
NEVER_LEFT: dict[str, tuple[Operator, str]] = {
    "a column of nobody": (Filter(ROWS, text("`w` > 1", "w")), "names w"),
    "a column that is gone": (Filter(Project(ROWS, KEY), text("`k` > 1", "k")), "names k"),
    "a key of nobody": (Join(ROWS, OTHERS, JoinKind.INNER, (KeyPair(column("z"), column("l")),)), "names z"),
    "a condition of strangers": (Join(ROWS, OTHERS, JoinKind.INNER, residual=text("`z`", "z")), "names z"),
    "a constant of something": (Constant(("x",), ((column("k"),),)), "names k"),
    "a sum of nothing": (Aggregate(OTHERS, (), (TOTAL,), "n"), "names v"),
    "a window over nothing": (Window(ROWS, (column("z"),), RANKED), "names z"),
    "an order of nothing": (TopK(OTHERS, ORDER, 1), "names k, v"),
    "a generator of nothing": (Generate(ROWS, text("explode(`z`)", "z"), ("e",)), "names z"),
    "deep down": (Signed(Project(Filter(ROWS, text("`w`", "w")), KEY), 1), "names w"),
}


NO_CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "the middle": (lambda: replace(LEAST, pick="median"), "picks median"),
    "products": (lambda: replace(TOTAL, combine="product"), "combines by product"),
    "an extremum without values": (lambda: replace(LEAST, term=None), "picks none"),
    "an extremum that counts": (lambda: replace(LEAST, ties_of="m"), "two things at once"),
    "rounds that go nowhere": (
        lambda: Rounds((Assign(RoundRef(1), ROWS),), (), RoundRef(1), RoundRef(1, RoundPart.ALL)),
        "never keeps r1",
    ),
}


@pytest.mark.parametrize("name", NO_CALLS)
def test_what_operators_are_made_of_cannot_be_wrong_either(name: str) -> None:
    build, message = NO_CALLS[name]
    with pytest.raises(InternalError, match=message):
        build()


@pytest.mark.parametrize("name", NEVER_BUILT)
def test_it_cannot_be_built(name: str) -> None:
    build, message = NEVER_BUILT[name]
    with pytest.raises(InternalError, match=message):
        build()


@pytest.mark.parametrize("name", NEVER_LEFT)
def test_it_cannot_be_left_in_a_plan(name: str) -> None:
    plan, message = NEVER_LEFT[name]
    with pytest.raises(InternalError, match=message):
        validate(plan)


def test_the_plans_of_a_program_are_looked_at() -> None:
    wrong = Fixpoint((), Signed(ROWS, 1), Signed(Filter(ROWS, text("`w`", "w")), 1))
    with pytest.raises(InternalError, match="names w"):
        validate(wrong)


def test_a_definition_ends_at_the_pass_that_broke_it() -> None:
    with pytest.raises(InternalError, match="names w"):
        run_passes(Stage("bind", "", (Tree(Filter(ROWS, text("`w` > 1", "w"))),)), DEFINITION)


def test_a_column_of_a_query_around_may_stand_in_a_part() -> None:
    """It can be built, because it is one while its query is bound."""
    assert Project(ROWS, (Output("x", text("`w`", "w")),)).columns == ("x",)
