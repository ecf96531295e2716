"""The nodes of a query -> whether rows that come to a source can only make more rows come to the result.

A circle of stream tables has a least fixpoint, which is found by adding, only if all of its members are
like that in each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from spark_trickle.algebra.operators import Join, JoinKind, Operator, Scan, SetKind, SetOperation
from spark_trickle.algebra.prune import used_columns
from spark_trickle.algebra.references import Reference, TableRef
from spark_trickle.algebra.require import refuse
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Recursive, TopK, Window
from spark_trickle.plan.split import Node

Tables = frozenset[TableRef]
_Combining = Join | Aggregate | SetOperation | Window | TopK | Buffer | Recursive  # not row by row

_JOINS = {
    JoinKind.LEFT: "an outer join",
    JoinKind.FULL: "an outer join",
    JoinKind.ANTI: "NOT IN, NOT EXISTS, EXCEPT or an anti join",
    JoinKind.MARK: "a subquery as a value",
}


def find_taking_operator(nodes: Sequence[Node], sources: Tables) -> str | None:
    """The operator closest to the result that may take rows away when rows come to some sources, in words.

    NOT IN is more than one operator: the one that is closest bears its name.
    """
    shown = frozenset[str]().union(*(used_columns(n.plan) for n in nodes))
    reached: set[Reference] = set(sources)
    found = None
    for node in nodes:
        words = (_describe_taking(op, frozenset(reached), shown) for op in node.plan.walk())
        found = next((w for w in words if w), found)
        if node.sources & reached:
            reached.add(node.name)
    return found


def _describe_taking(op: Operator, reached: frozenset[Reference], shown: frozenset[str]) -> str | None:
    """`reached` are sources and nodes that rows come to, `shown` the columns that are asked for."""
    grows = [bool(child.sources & reached) for child in op.inputs]
    if not any(grows) or op.row_by_row:
        return None
    if not isinstance(op, _Combining):
        refuse(op, "does not say whether it takes rows away")
    match op:
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return None
        case Join(kind=kind):
            # A left row is treated by itself, unless lonely rows of the right are shown as well.
            return _JOINS[kind] if grows[1] or kind is JoinKind.FULL else None
        case Aggregate(keys=keys, calls=(), count=count) if keys and count not in shown:
            return None
        case Aggregate(keys=keys, calls=()) if not keys:
            return "EXISTS without a condition on the outer row, or an aggregate"
        case Aggregate():
            return "an aggregate"
        case SetOperation(kind=SetKind.INTERSECT | SetKind.INTERSECT_ALL):
            return None
        case SetOperation():
            return "EXCEPT" if grows[1] else None
        case Window():
            return "a window function"
        case TopK() | Buffer():
            return "LIMIT"
        case Recursive():
            return "WITH RECURSIVE"
        case never:
            assert_never(never)


def sources_kept_as_bags(nodes: Sequence[Node], sources: Tables) -> Tables:
    """Those of some sources whose rows reach the result as often as they come: no DISTINCT is between."""
    known: dict[Reference, Tables] = {s: frozenset((s,)) for s in sources}
    for node in nodes:
        known[node.name] = _find_repeated(node.plan, known)
    return known[nodes[-1].name]


def _find_repeated(op: Operator, known: Mapping[Reference, Tables]) -> Tables:
    match op:
        case Scan(source=source):
            return known.get(source, frozenset())
        case Aggregate() | SetOperation(kind=SetKind.INTERSECT | SetKind.EXCEPT):
            return frozenset()
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI | JoinKind.MARK):
            return _find_repeated(op.left, known)
    return frozenset[TableRef]().union(*(_find_repeated(child, known) for child in op.inputs))
