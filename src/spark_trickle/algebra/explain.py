"""Operators -> words: what each does, and what its change costs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import singledispatch

from spark_trickle.algebra.change_operators import Fixpoint, Keys, Signed, Touched, Untouched
from spark_trickle.algebra.operators import (
    At,
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    Operator,
    Project,
    Scan,
    SetOperation,
    Settled,
    UnionAll,
)
from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Materialized, Recursive, TopK, Window


class Cost(StrEnum):
    """What a refresh costs, by how the work grows."""

    CHANGE = "O(Δ)"
    GROUPS = "O(Δ + touched groups)"
    ROWS = "O(Δ + rows of touched keys)"
    ALL = "O(n)"

    @property
    def rank(self) -> int:
        return list(Cost).index(self)


@singledispatch
def describe_strategy(op: Operator) -> tuple[Cost, str]:
    """How the change of an operator is computed."""
    return Cost.CHANGE, "linear: applied to the changed rows"


@describe_strategy.register
def _(op: Join) -> tuple[Cost, str]:
    if op.kind is JoinKind.INNER:
        return Cost.CHANGE, "one term for each changed side: ΔL ⋈ R_new + L_old ⋈ ΔR"
    if op.keys:
        return Cost.ROWS, "touched keys are joined again; linear while only the left side changes"
    return Cost.ALL, "without an equality, the whole join is computed again when the right side changes"


@describe_strategy.register
def _(op: SetOperation) -> tuple[Cost, str]:
    return Cost.ROWS, "touched rows are counted again on both sides"


@describe_strategy.register
def _(op: Aggregate) -> tuple[Cost, str]:
    if op.algebraic:
        return Cost.GROUPS, "algebraic: sums of the change are added to the stored sums"
    if op.foldable and not any(c.pick for c in op.calls):
        return (
            Cost.GROUPS,
            "algebraic: sums of the change are added to the stored sums; a group is read again while it has"
            " numbers that an exact sum cannot hold",
        )
    if op.foldable:
        return (
            Cost.GROUPS,
            "extremum: new rows update it; a group is read again when the last row with its smallest or"
            " largest value is deleted",
        )
    kind = Cost.ROWS if op.keys else Cost.ALL
    names = ", ".join(sorted({c.expr.sql.split("(")[0].lower() for c in op.calls if c.term is None}))
    return kind, f"touched groups are computed again because of {names}"


@describe_strategy.register
def _(op: Window) -> tuple[Cost, str]:
    if op.partition:
        return Cost.ROWS, "touched partitions are computed again"
    return Cost.ALL, "a window without PARTITION BY is computed again"


@describe_strategy.register
def _(op: TopK) -> tuple[Cost, str]:
    if op.buffered:
        return Cost.CHANGE, "the first rows are chosen again from a small buffer"
    return Cost.ALL, "the first rows are chosen again from the whole input"


@describe_strategy.register
def _(op: Buffer) -> tuple[Cost, str]:
    return (
        Cost.CHANGE,
        f"the first {op.keep} rows are kept; the input is read again when fewer than {op.need} are left",
    )


@describe_strategy.register
def _(op: Recursive) -> tuple[Cost, str]:
    if why := find_obstacle(op):
        return Cost.ALL, f"the whole recursion is computed again: {why}"
    if op.distinct:
        return (
            Cost.ROWS,
            "inserted rows are followed step by step; rows that may be gone are removed, and derived again"
            " where another path leads to them",
        )
    return Cost.ROWS, "the change is followed step by step, with weights"


def find_cost(op: Operator) -> Cost:
    """The dearest operator decides."""
    return max((describe_strategy(part)[0] for part in op.walk()), key=lambda c: c.rank)


@singledispatch
def write_title(op: Operator) -> str:
    return type(op).__name__


@write_title.register
def write_scan_title(op: Scan, named: Callable[[Reference], str] = str) -> str:
    moment = "" if op.moment is At.NEW else f"{op.moment} "
    return f"Scan {named(op.source)} {moment}({', '.join(c for _, c in op.names)})"


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


def write_tree(op: Operator, named: Callable[[Reference], str] = str, depth: int = 0) -> list[str]:
    """One line for each operator, inputs below and further right; `named` says what to call what is read."""
    words = write_scan_title(op, named) if isinstance(op, Scan) else write_title(op)
    lines = [f"{'  ' * depth}{words}"]
    if isinstance(op, Fixpoint):
        for name, plan in op.plans():
            lines += [f"{'  ' * (depth + 1)}{name}:", *write_tree(plan, named, depth + 2)]
        return [*lines, *write_tree(op.result, named, depth + 1)]
    for child in op.inputs:
        lines += write_tree(child, named, depth + 1)
    return lines
