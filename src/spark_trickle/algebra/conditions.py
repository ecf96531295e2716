"""Tests <-> one condition, and what alternatives have in common."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.algebra.expressions import And, Brackets, Expr, Or


def remove_brackets(expr: Expr) -> Expr:
    """What stands in brackets."""
    expr = expr.meaning
    while isinstance(expr, Brackets):
        expr = expr.input.meaning
    return expr


def all_of(tests: Sequence[Expr]) -> Expr:
    """One or more tests, each of which binds tighter than AND or is a list of tests itself."""
    return _connect_tests(
        And, [t for test in tests for t in (test.tests if isinstance(test, And) else (test,))]
    )


def any_of(tests: Sequence[Expr]) -> Expr:
    """The same of tests of which one has to be true."""
    return _connect_tests(Or, tests)


def join_conjuncts(tests: Sequence[Expr]) -> Expr | None:
    """All of some conditions as one; none of none."""
    if len(tests) < 2:
        return tests[0] if tests else None
    return And(tuple(Brackets(t) for t in tests))


def split_conjuncts(test: Expr) -> list[Expr]:
    """The conditions that all must be true, without brackets around them."""
    return _tests_of(test, And)


def split_shared_conjuncts(test: Expr) -> list[Expr]:
    """The same, and of alternatives what all of them ask for: (a AND b) OR (a AND c) asks for a."""
    return [found for part in split_conjuncts(test) for found in _find_shared(part)]


def _find_shared(part: Expr) -> list[Expr]:
    if not isinstance(part, Or):
        return [part]
    ways = [{c.sql: c for c in split_shared_conjuncts(way)} for way in _tests_of(part, Or)]
    common = [text for text in ways[0] if all(text in way for way in ways)]
    if not common:
        return [part]
    found = [ways[0][text] for text in common]
    rest = [[c for text, c in way.items() if text not in common] for way in ways]
    # A way that asks for nothing more is always open.
    return [*found, any_of([all_of(r) for r in rest])] if all(rest) else found


def _tests_of(test: Expr, kind: type[And | Or]) -> list[Expr]:
    inner = remove_brackets(test)
    return [t for part in inner.tests for t in _tests_of(part, kind)] if isinstance(inner, kind) else [inner]


def _connect_tests(kind: type[And | Or], tests: Sequence[Expr]) -> Expr:
    if len(tests) == 1:
        return tests[0]
    return kind(tuple(Brackets(t) if isinstance(t, And | Or) else t for t in tests))
