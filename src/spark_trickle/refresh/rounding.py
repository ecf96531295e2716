"""Rows of two results -> SQL that pairs those whose floats differ just in how they were rounded."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.model.table import Table
from spark_trickle.model.types import is_float
from spark_trickle.sql.lexer.words import quote

_ROUNDING = "1e-9D"
_EPSILON = 2.0**-53
_LEAST_STEPS = 64  # in which a number may be rounded, beside one for each row
_MARGIN = 16  # by how much rounding may exceed what two random disturbances show
_INFINITY = "double('Infinity')"


def bound_rounding(rows: int) -> float:
    """The share of a number by which rounding may move it while so many are added."""
    return _EPSILON * (_LEAST_STEPS + rows)


def render_beyond_rounding(columns: Sequence[str], table: Table) -> str:
    """Without rows that differ from one on the other side just in how floats were rounded.

    The same rows in another order have another sum or deviation, also in plain Spark.
    """
    named = list(zip(columns, table.columns, strict=True))
    floats = [name for name, c in named if is_float(c.type)]
    exact = [name for name, c in named if not is_float(c.type)]
    groups = ", ".join([*exact, "difference"])
    placed = (
        f"(SELECT *, row_number() OVER (PARTITION BY {groups} ORDER BY {', '.join(floats)}) AS place "
        "FROM {differing})"
    )
    pairs = ["one.place = other.place", "one.rows = other.rows", "one.difference <> other.difference"]
    pairs += [f"one.{n} <=> other.{n}" for n in exact]
    pairs += [
        f"(one.{n} <=> other.{n} OR (abs(one.{n}) < {_INFINITY} AND abs(other.{n}) < {_INFINITY} "
        f"AND abs(one.{n} - other.{n}) <= {_ROUNDING} * abs(one.{n})))"
        for n in floats
    ]
    shown = ", ".join(f"one.{n}" for n in columns)
    return (
        f"SELECT {shown}, one.difference, one.rows FROM {placed} AS one "
        f"LEFT ANTI JOIN {placed} AS other ON {' AND '.join(pairs)}"
    )


def render_near_pairs(columns: Sequence[str], floats: Sequence[str], floor: float) -> str:
    """Rows of {w} and {f}, columns side by side, that differ no more than {a} and {b} differ from {w}.

    These are results of the same query for numbers that are off in their last digits. Less than the floor is
    nothing.
    """
    exact = [c for c in columns if c not in floats]
    by = f"PARTITION BY {', '.join(exact)} " if exact else ""

    def number_rows(name: str) -> str:
        return f"(SELECT *, row_number() OVER ({by}ORDER BY {', '.join(floats)}) AS place FROM {{{name}}})"

    def join_rows(name: str) -> str:
        same = " AND ".join([f"w.place = {name}.place", *(f"w.{c} <=> {name}.{c}" for c in exact)])
        return f" JOIN {number_rows(name)} AS {name} ON {same}"

    near = " AND ".join(
        f"(w.{c} <=> f.{c} OR abs(w.{c} - f.{c}) <= {_ROUNDING} * abs(w.{c}) "
        f"+ {_MARGIN}D * greatest(abs(w.{c} - a.{c}), abs(w.{c} - b.{c}), {floor!r}D))"
        for c in floats
    )
    shown = ", ".join(f"{side}.{c} AS {side}_{c}" for side in "wf" for c in columns)
    return f"SELECT {shown} FROM {number_rows('w')} AS w{''.join(map(join_rows, 'fab'))} WHERE {near}"


def render_without_pairs(columns: Sequence[str], table: Table) -> str:
    """What is left of {differing}."""
    names = {c: quote(n) for c, n in zip(columns, table.column_names, strict=True)}
    sides = [
        f"(d.difference = '{word}' AND {' AND '.join(f'd.{names[c]} <=> p.{side}_{c}' for c in columns)})"
        for word, side in (("extra", "f"), ("missing", "w"))
    ]
    return f"SELECT d.* FROM {{differing}} AS d LEFT ANTI JOIN {{pairs}} AS p ON {' OR '.join(sides)}"
