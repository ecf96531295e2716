"""A depth -> a join of so many tables: its query, its tree and the tree of its change, without Spark."""

from __future__ import annotations

from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import TableRef
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import ReadableTable

_COLUMNS = ("id", "next", "a", "b", "c")


def join_query(depth: int) -> str:
    """A chain: each table names the row of the next one."""
    rest = " ".join(f"JOIN j{n} ON j{n - 1}.next = j{n}.id" for n in range(2, depth + 1))
    return f"SELECT j1.id, j1.a, j{depth}.b FROM j1 {rest} WHERE j1.a > 10"


def join_node(depth: int) -> Node:
    bound = bind(join_query(depth), _find, _types, "main")
    (node,) = split_into_nodes(bound.plan)
    return node


def change_of(node: Node) -> Operator:
    """As if all its tables had changed."""
    change = differentiate_node(node.plan, node.own, node.sources)
    assert change is not None
    return change


def _find(parts: tuple[str, ...], home: str) -> ReadableTable:
    return ReadableTable(TableRef(int(parts[-1][1:])), _COLUMNS)


def _types(op: Operator) -> dict[str, str]:
    return dict.fromkeys(op.columns, "bigint")
