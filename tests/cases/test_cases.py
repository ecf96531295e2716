"""Every case on DuckDB; `run_on_spark` is the same for a warehouse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.model.stream import Action
from spark_trickle.model.table import DEFAULT_SCHEMA
from spark_trickle.session import Trickle
from tests.cases.reader import Bag, Case, CaseError, Row, Step, parse_cases, read_cases
from tests.laws.duck import Table, World
from tests.laws.readings import check_expressions

CASES = read_cases(Path(__file__).parent)
_COMES = ("insert", "update_postimage")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    run_on_duckdb(case)


def test_names_are_different() -> None:
    assert [i for i, n in Counter(case.id for case in CASES).items() if n > 1] == []


# --- DuckDB ------------------------------------------------------------------------------------------


def run_on_duckdb(case: Case) -> None:
    """Each step changes the stream table exactly as written, and leaves it equal to its query."""
    world = new_world(case)
    names = [n.lower() for n, _ in world.bound.outputs]
    assert all(names), "a stream table needs a name for every column"
    assert len(set(names)) == len(names), "a stream table needs different names for its columns"
    check_expressions(n.plan for n in world.nodes)
    content = bag(world.result.elements())
    assert content == bag(world.oracle().elements())
    for step in case.steps:
        world.refresh({name: Counter(change) for name, change in step.changes.items()})
        before, content = content, bag(world.result.elements())
        assert content == bag(world.oracle().elements()), f"line {step.line}: not what the query says"
        assert difference(before, content) == bag_of_changes(step.delta), f"line {step.line}: another delta"


def new_world(case: Case) -> World:
    world = World({t.name: Table(t.columns, Counter(t.rows)) for t in case.tables}, case.view)
    world.query = case.oracle
    return world


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def bag_of_changes(changes: Bag) -> Bag:
    return Counter({row: n for row, n in changes.items() if n})


def difference(before: Bag, after: Bag) -> Bag:
    return bag_of_changes(Counter({row: after[row] - before[row] for row in before | after}))


# --- Spark -------------------------------------------------------------------------------------------


def run_on_spark(case: Case, tr: Trickle, by_spark: bool = False) -> None:
    """The case in a schema of its own: a transaction and a refresh for each step; DuckDB says what is right."""
    tr.sql(f"CREATE SCHEMA {case.schema}")
    tr.sql(f"USE {case.schema}")
    try:
        _create(case, tr)
        _follow(case, tr, by_spark)
    finally:
        tr.sql(f"USE {DEFAULT_SCHEMA}")


def _create(case: Case, tr: Trickle) -> None:
    for table in case.tables:
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
        tr.sql(f"CREATE TABLE {table.name} ({columns})")
        if table.rows:
            tr.sql(_insert(table.name, list(table.rows.elements())))
    tr.sql(f"CREATE STREAM TABLE result REFRESH MODE DIFFERENTIAL AS {case.view}")


def _follow(case: Case, tr: Trickle, by_spark: bool) -> None:
    world = new_world(case)
    assert _content(tr) == bag(world.oracle().elements())
    for step in case.steps:
        statements = list(_statements(step, world))
        if statements:
            with tr.transaction():
                for statement in statements:
                    tr.sql(statement)
        before = tr.snapshot
        report = tr.refresh("result")
        assert report.action in (Action.DIFFERENTIAL, Action.NO_DATA), report.reason
        assert "driver" not in _engines(tr) or not by_spark
        assert _content(tr) == bag(world.oracle().elements()), f"line {step.line}: not what the query says"
        assert _feed(tr, before) == bag_of_changes(step.delta), f"line {step.line}: another delta"


def _content(tr: Trickle) -> Bag:
    return bag(tr.table("result").collect())


def _engines(tr: Trickle) -> set[str]:
    """Where the operators of the newest refresh ran."""
    return {line["engine"] for line in tr.answer("explain_refresh", "result").dicts()}


def _feed(tr: Trickle, after: int) -> Bag:
    """The net of the change feed."""
    net: Bag = Counter()
    for row in tr.sql(f"SELECT * FROM trickle.changes('result', {after})").collect():
        values = [v for name, v in row.asDict().items() if name not in _FEED_COLUMNS]
        net[tuple(plain(v) for v in values)] += 1 if row["_change_type"] in _COMES else -1
    return bag_of_changes(net)


_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def _statements(step: Step, world: World) -> Iterator[str]:
    """SQL that makes the change; the rows of the world change with it."""
    for name, change in step.changes.items():
        table = world.tables[name]
        for row, weight in change.items():
            left = table.rows[row] + weight
            assert left >= 0, f"line {step.line}: {row} is not there"
            if weight < 0:
                yield _delete(name, table.names, row)
            # DELETE takes all equal rows, so those that stay are put back.
            if back := left if weight < 0 else weight:
                yield _insert(name, [row] * back)
            table.rows[row] = left


def _insert(name: str, rows: list[Row]) -> str:
    return f"INSERT INTO {name} VALUES {', '.join(f'({_listed(row)})' for row in rows)}"


def _delete(name: str, columns: tuple[str, ...], row: Row) -> str:
    tests = [
        f"{c} IS NULL" if v is None else f"{c} = {_literal(v)}" for c, v in zip(columns, row, strict=True)
    ]
    return f"DELETE FROM {name} WHERE {' AND '.join(tests)}"


def _listed(row: Row) -> str:
    return ", ".join(_literal(v) for v in row)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return str(value).lower()


# --- the runner itself -------------------------------------------------------------------------------

_EXAMPLE = """
# a new row on both sides pairs once
table t(a int, b int)   (1, 3)
table u(c int, d int)
view  SELECT a, d FROM t JOIN u ON a = c
step  t +(2, 9)   u +(2, 5)
delta +(2, 5)
"""


def test_a_wrong_delta_is_found_out() -> None:
    (case,) = parse_cases(_EXAMPLE, "example")
    run_on_duckdb(case)
    for wrong in ({}, {(2, 5): 2}, {(2, 5): 1, (2, 9): 1}):
        steps = tuple(replace(step, delta=Counter(wrong)) for step in case.steps)
        with pytest.raises(AssertionError, match="another delta"):
            run_on_duckdb(replace(case, steps=steps))


@pytest.mark.parametrize("wrong", ["step v +(1, 2)", "step t +(1)", "step t (1, 2)", "rows (1, 2)", "delta"])
def test_a_case_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(CaseError, match="example, line 5"):
        parse_cases(_EXAMPLE.lstrip().replace("step  t +(2, 9)   u +(2, 5)", wrong), "example")


def test_sql_of_a_step() -> None:
    """One of several equal rows goes: all go and the others come again."""
    step = Step({"t": Counter({(1, None): -1, (2, 5): 2})}, Counter(), 1)
    world = World({"t": Table((("a", "int"), ("b", "int")), Counter({(1, None): 3}))}, "SELECT a FROM t")
    assert list(_statements(step, world)) == [
        "DELETE FROM t WHERE a = 1 AND b IS NULL",
        "INSERT INTO t VALUES (1, NULL), (1, NULL)",
        "INSERT INTO t VALUES (2, 5), (2, 5)",
    ]
