"""One valid operator of each class, over two tables: what the consumers of operators are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from spark_trickle.algebra.change_operators import (
    Added,
    Assign,
    Counted,
    Different,
    Fixpoint,
    Fold,
    Half,
    Keys,
    Net,
    Partial,
    Rounds,
    Shaken,
    Signed,
    Terms,
    Touched,
    Trimmed,
    Unfit,
    Untouched,
    Within,
)
from spark_trickle.algebra.expressions import Expr
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
    Settled,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import NodeRef, RoundPart, RoundRef, TableRef
from spark_trickle.algebra.stateful_operators import (
    Aggregate,
    Buffer,
    Call,
    Materialized,
    Recursive,
    SortKey,
    TopK,
    Window,
)
from spark_trickle.sql.bind.translate import read_expression


def concrete_operators(base: type[Operator] = Operator) -> Iterator[type[Operator]]:
    """Every class of which there are operators: it has fields."""
    if fields(base):
        yield base
    for each in base.__subclasses__():
        yield from concrete_operators(each)


def text(sql: str, *columns: str) -> Expr:
    return read_expression(sql, frozenset(columns))


ROWS = Scan(TableRef(1), (("k", "k"), ("v", "v")))
OTHERS = Scan(TableRef(2), (("l", "k"), ("w", "v")))
CHANGE = ROWS.at(At.DELTA)
KEY = (Output("g", column("k")),)
ORDER = (SortKey(column("v"), True, False), SortKey(column("k"), False, True))
TOTAL = Call("s", text("sum(`v`)", "v"), column("v"), "BIGINT")
LEAST = Call("m", text("min(`v`)", "v"), column("v"), "INT", pick="min")
TIES = Call("c", text("1"), text("1"), "BIGINT", ties_of="m")
SUMS = Aggregate(ROWS, KEY, (TOTAL,), "n")
EXTREMA = Aggregate(ROWS, KEY, (LEAST, TIES), "n")
OWN_SUMS = Scan(NodeRef(1), (("g", "g"), ("s", "s"), ("n", "n")), At.OLD)
OWN_EXTREMA = Scan(NodeRef(2), (("g", "g"), ("m", "m"), ("c", "c"), ("n", "n")), At.OLD)
OWN_ROWS = Scan(NodeRef(3), (("k", "k"), ("v", "v")), At.OLD)
PARTIAL = Partial(CHANGE, KEY, EXTREMA.calls, "n")
TOUCHED_KEYS = Keys(OTHERS.at(At.DELTA), (column("l"),))
WITHIN = Within(CHANGE, OWN_ROWS, ORDER, 2)
LAST = Scan(RoundRef(1), (("a", "k"), ("b", "v")))
STEP = Project(
    Filter(LAST, text("`a` < 3", "a")), (Output("k", text("`a` + 1", "a")), Output("v", column("b")))
)
FOUND = Scan(RoundRef(1, RoundPart.ALL), (("k", "k"), ("v", "v")))
NEXT = Untouched(
    Different(STEP), (column("k"), column("v")), Keys(FOUND, (column("k"), column("v")), distinct=False)
)

OF_QUERIES: tuple[Operator, ...] = (
    ROWS,
    Constant(("x", "y"), ((text("1"), text("'a'")),)),
    Project(ROWS, (Output("x", text("`k` + 1", "k")), Output("y", column("v")))),
    Filter(ROWS, text("`v` > 1", "v")),
    Join(ROWS, OTHERS, JoinKind.INNER, (KeyPair(column("k"), column("l")),)),
    SUMS,
    UnionAll((ROWS, OTHERS)),
    SetOperation(ROWS, OTHERS, SetKind.EXCEPT_ALL),
    Window(
        ROWS,
        (column("k"),),
        (Output("r", text("row_number() OVER (PARTITION BY `k` ORDER BY `v`)", "k", "v")),),
    ),
    TopK(ROWS, ORDER, 2),
    Buffer(ROWS, ORDER, 2, 4),
    Generate(ROWS, text("explode(array(`v`, 1))", "v"), ("e",)),
    Materialized(ROWS),
    Settled(ROWS),
    Recursive(ROWS, STEP, RoundRef(1), True),
)
OF_CHANGES: tuple[Operator, ...] = (
    Signed(ROWS, 1),
    TOUCHED_KEYS,
    Touched(ROWS, (column("k"),), TOUCHED_KEYS),
    Untouched(ROWS, (column("k"),), TOUCHED_KEYS),
    Terms(CHANGE, KEY, (TOTAL,), "n"),
    Added(Terms(CHANGE, KEY, (TOTAL,), "n"), OWN_SUMS, ("g",), (TOTAL,), "n"),
    PARTIAL,
    Fold(PARTIAL, OWN_EXTREMA, ("g",), EXTREMA.calls, "n"),
    Shaken(PARTIAL, OWN_EXTREMA, ("g",), (LEAST,), (TIES,), "n"),
    Counted(EXTREMA),
    Net(CHANGE),
    Trimmed(CHANGE),
    WITHIN,
    Unfit(WITHIN, OWN_ROWS, 2, 16),
    Half(CHANGE, -1),
    Different(ROWS),
    Fixpoint(
        (
            Rounds(
                (Assign(RoundRef(1), Different(ROWS)),),
                (Assign(RoundRef(1), NEXT),),
                RoundRef(1),
                RoundRef(1, RoundPart.ALL),
            ),
        ),
        FOUND,
    ),
)
SAMPLES = {type(op).__name__: op for op in (*OF_QUERIES, *OF_CHANGES)}
