"""Operators -> words: what each does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch

from spark_trickle.algebra.change_operators import Fixpoint, Keys, Signed, Touched, Untouched
from spark_trickle.algebra.operators import (
    At,
    Constant,
    Filter,
    Generate,
    Join,
    Operator,
    Project,
    Scan,
    SetOperation,
    Settled,
    UnionAll,
)
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Materialized, Recursive, TopK, Window


@singledispatch
def write_title(op: Operator) -> str:
    return type(op).__name__


CountRows = Callable[[Scan], int | None]


def _count_nothing(_: Scan) -> int | None:
    return None


@write_title.register
def write_scan_title(
    op: Scan, named: Callable[[Reference], str] = str, counted: CountRows = _count_nothing
) -> str:
    moment = "" if op.moment is At.NEW else f"{op.moment} "
    rows = counted(op)
    size = "" if rows is None else f": {rows:,} {'row' if rows == 1 else 'rows'}"
    return f"Scan {named(op.source)} {moment}({', '.join(c for _, c in op.names)}){size}"


@write_title.register
def _(op: Constant) -> str:
    return f"Constant ({len(op.rows)} rows)"


@write_title.register
def _(op: Project) -> str:
    return f"Project {', '.join(f'{o.expr.sql} AS {o.name}' for o in op.outputs)}"


@write_title.register
def _(op: Filter) -> str:
    return f"Filter {op.predicate.sql}"


@write_title.register
def _(op: Join) -> str:
    keys = [f"{k.left.sql} {'<=>' if k.null_safe else '='} {k.right.sql}" for k in op.keys]
    rest = [op.residual.sql] if op.residual is not None else []
    return f"{op.kind.capitalize()} join {' AND '.join(keys + rest) or 'of all rows'}"


@write_title.register
def _(op: Aggregate) -> str:
    keys = ", ".join(k.expr.sql for k in op.keys)
    calls = [c.expr.sql for c in op.calls if not c.ties_of and not c.again_if]
    return f"Aggregate {f'by {keys}' if keys else 'all rows'}: {', '.join([*calls, 'count(*)'])}"


@write_title.register
def _(op: SetOperation) -> str:
    return op.kind.value.capitalize()


@write_title.register
def _(op: UnionAll) -> str:
    return f"Union of {len(op.parts)}"


@write_title.register
def _(op: Window) -> str:
    return f"Window {', '.join(o.expr.sql for o in op.outputs)}"


@write_title.register
def _(op: TopK) -> str:
    return f"{'All' if op.limit is None else f'First {op.limit}'} rows after skipping {op.offset}"


@write_title.register
def _(op: Buffer) -> str:
    return f"Buffer of the first {op.keep} rows"


@write_title.register
def _(op: Recursive) -> str:
    return f"Recursion by UNION{'' if op.distinct else ' ALL'}"


@write_title.register
def _(op: Generate) -> str:
    return f"Generate {op.generator.sql}"


@write_title.register(Materialized)
@write_title.register(Settled)
def _(op: Materialized | Settled) -> str:
    return "Net changes only"


@write_title.register
def _(op: Fixpoint) -> str:
    return "Rounds until no new rows are found"


@write_title.register
def _(op: Signed) -> str:
    return "Inserted" if op.sign > 0 else "Deleted"


@write_title.register
def _(op: Keys) -> str:
    return f"Keys {', '.join(e.sql for e in op.exprs)}"


@write_title.register(Touched)
@write_title.register(Untouched)
def _(op: Touched) -> str:
    without = "out" if isinstance(op, Untouched) else ""
    return f"Rows with{without} touched {', '.join(e.sql for e in op.exprs)}"


def write_tree(
    op: Operator,
    named: Callable[[Reference], str] = str,
    counted: CountRows = _count_nothing,
) -> list[str]:
    """One line for each operator, inputs below and further right.

    `named` says what to call what is read, and `counted` how many rows that is, where it is known.
    """
    return [f"{'  ' * depth}{words}" for depth, words in _list_lines(op, named, counted, 0)]


def _list_lines(
    op: Operator, named: Callable[[Reference], str], counted: CountRows, depth: int
) -> Iterator[tuple[int, str]]:
    yield depth, write_scan_title(op, named, counted) if isinstance(op, Scan) else write_title(op)
    if isinstance(op, Fixpoint):
        for name, plan in op.plans():
            yield depth + 1, f"{name}:"
            yield from _list_lines(plan, named, counted, depth + 2)
        yield from _list_lines(op.result, named, counted, depth + 1)
        return
    for child in op.inputs:
        yield from _list_lines(child, named, counted, depth + 1)
