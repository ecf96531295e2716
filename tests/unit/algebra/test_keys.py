"""What tells the rows of a tree apart: only what is sure, because reading relies on it."""

from __future__ import annotations

import pytest

from spark_trickle.algebra.expressions import TRUE, Opaque
from spark_trickle.algebra.keys import unique_key
from spark_trickle.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    Scan,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import Reference, RoundRef, TableRef
from spark_trickle.algebra.stateful_operators import Aggregate, Recursive, Window

NAMES = ("orders", "customers", "lines", "bag")
KEYS: dict[Reference, tuple[str, ...]] = dict(
    zip(map(TableRef, range(4)), (("id",), ("id",), ("order", "nr"), ()), strict=True)
)


def scan(source: str, prefix: str, *names: str) -> Scan:
    return Scan(TableRef(NAMES.index(source)), tuple((f"{prefix}_{n}", n) for n in names))


ORDERS = scan("orders", "o", "id", "customer")
CUSTOMERS = scan("customers", "c", "id", "name")
LINES = scan("lines", "l", "order", "nr", "item")
BAG = scan("bag", "b", "x")


def join(right: Operator, asked: dict[str, str], kind: JoinKind = JoinKind.INNER) -> Join:
    pairs = tuple(KeyPair(column(a), column(b)) for a, b in asked.items())
    return Join(ORDERS, right, kind, pairs, mark="m" if kind is JoinKind.MARK else None)


def shown(op: Operator, **names: str) -> Project:
    return Project(op, tuple(Output(name, column(c)) for name, c in names.items()))


CASES: dict[str, tuple[Operator, tuple[str, ...]]] = {
    "a table": (ORDERS, ("o_id",)),
    "a key of two": (LINES, ("l_order", "l_nr")),
    "half a key": (scan("lines", "l", "order"), ()),
    "no key": (BAG, ()),
    "filter": (Filter(ORDERS, TRUE), ("o_id",)),
    "window": (Window(ORDERS, (column("o_customer"),), (Output("n", Opaque("row_number()")),)), ("o_id",)),
    "shown under another name": (shown(ORDERS, number="o_id"), ("number",)),
    "not shown": (shown(ORDERS, who="o_customer"), ()),
    "computed": (Project(ORDERS, (Output("k", Opaque("`o_id` % 2", frozenset(("o_id",)))),)), ()),
    "the whole key is asked for": (join(CUSTOMERS, {"o_customer": "c_id"}), ("o_id",)),
    "half of it": (join(LINES, {"o_id": "l_order"}), ("o_id", "l_order", "l_nr")),
    "something else": (join(CUSTOMERS, {"o_customer": "c_name"}), ("o_id", "c_id")),
    "left": (join(LINES, {"o_id": "l_order"}, JoinKind.LEFT), ("o_id", "l_order", "l_nr")),
    "full": (join(CUSTOMERS, {"o_customer": "c_id"}, JoinKind.FULL), ()),
    "semi": (join(BAG, {"o_id": "b_x"}, JoinKind.SEMI), ("o_id",)),
    "anti": (join(BAG, {"o_id": "b_x"}, JoinKind.ANTI), ("o_id",)),
    "mark": (join(BAG, {"o_id": "b_x"}, JoinKind.MARK), ("o_id",)),
    "with a bag": (join(BAG, {"o_id": "b_x"}), ()),
    "groups": (Aggregate(BAG, (Output("g", column("b_x")),), (), "n"), ("g",)),
    "one row": (Aggregate(BAG, (), (), "n"), ()),
    "union": (UnionAll((ORDERS, ORDERS)), ()),
    "closure": (Recursive(ORDERS, ORDERS, RoundRef(1), True), ("o_id", "o_customer")),
    "paths": (Recursive(ORDERS, ORDERS, RoundRef(1), False), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_tells_rows_apart(name: str) -> None:
    tree, key = CASES[name]
    assert unique_key(tree, KEYS.__getitem__) == key
