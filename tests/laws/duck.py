"""Stream tables on DuckDB: the same trees and the same deltas, thousands a minute, and an oracle beside them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot

from spark_trickle.algebra.change_operators import Fixpoint
from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.algebra.prune import prune
from spark_trickle.algebra.recursion import replace_by_start
from spark_trickle.algebra.references import (
    ComputedRef,
    DriverRef,
    NodeRef,
    Reference,
    RoundRef,
    StepRef,
    TableRef,
)
from spark_trickle.algebra.stateful_operators import Aggregate
from spark_trickle.algebra.validate import validate
from spark_trickle.arrow.evaluate import Evaluated, Lookup, evaluate_plan
from spark_trickle.arrow.reduce import Reducer
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.plan.arrange import arrange_change
from spark_trickle.plan.join_order import connect_joins, order_joins
from spark_trickle.plan.sizes import Sizes
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.plan.steps import Step, with_steps
from spark_trickle.refresh.fixpoint import run_fixpoint
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import Bound, SourceTable
from spark_trickle.sql.render.query import render

Row = tuple[Any, ...]
_TYPES = {"int": "INTEGER", "bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "boolean": "BOOLEAN"}


def checked(plan: Operator) -> Operator:
    """What a pass left, which makes sense."""
    validate(plan)
    return plan


def _net(changed: list[Row]) -> Counter[Row]:
    """How often each row comes or goes in the end."""
    net: Counter[Row] = Counter()
    for *row, weight in changed:
        net[tuple(row)] += weight
    return Counter({r: w for r, w in net.items() if w})


@lru_cache(maxsize=10_000)
def duck_sql(text: str, read: str = "spark") -> str:
    marked = re.sub(r"\{(\w+)\}", r"frame_\1", text)
    return sqlglot.transpile(marked, read=read, write="duckdb")[0]


@dataclass
class Table:
    columns: tuple[tuple[str, str], ...]  # (name, type as Spark calls it)
    rows: Counter[Row] = field(default_factory=Counter)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.columns)


class World:
    """Some tables and one stream table over them."""

    most_rows = 10_000  # that a change of a recursion may lead to

    def __init__(self, tables: dict[str, Table], query: str) -> None:
        self.con = duckdb.connect()
        self.con.execute("CREATE MACRO raise_error(message) AS error(message)")
        self.tables = tables
        self.query = query
        self.ids = {name: TableRef(n) for n, name in enumerate(tables, start=1)}
        for name, table in tables.items():
            for at in ("old", "new", "delta"):
                self._frame(f"{self.ids[name]}_{at}", table, [], weighted=at == "delta")
            self._frame(name, table, [])
        self.bound: Bound = bind(query, self._find, self._types, "main")
        self.nodes: tuple[Node, ...] = split_into_nodes(
            checked(prune(checked(connect_joins(checked(self.bound.plan)))))
        )
        for node in self.nodes:
            validate(node.plan)
        self.content: dict[NodeRef, Counter[Row]] = {}
        self.logs: dict[NodeRef, list[Row]] = {}
        self.refreshes = 0
        self.taken: Counter[NodeRef] = Counter()  # of changes that were computed in both ways
        self.kept = 0
        self.here = 0  # changes that were computed with Arrow as well
        self._start()

    # --- what the binder asks ----------------------------------------------------------------------

    def _find(self, parts: tuple[str, ...], home: str) -> SourceTable | None:
        name = parts[-1].lower()
        return SourceTable(self.ids[name], self.tables[name].names) if name in self.tables else None

    def _types(self, op: Operator) -> dict[str, str]:
        described = self.con.execute(f"DESCRIBE {duck_sql(render(replace_by_start(op)))}").fetchall()
        return {row[0]: _spark_type(row[1]) for row in described}

    # --- running -----------------------------------------------------------------------------------

    def run(self, op: Operator) -> list[Row]:
        validate(op)
        return self.con.execute(duck_sql(render(op))).fetchall()

    def oracle(self) -> Counter[Row]:
        for name, table in self.tables.items():
            self._frame(name, table, list(table.rows.elements()))
        return Counter(self.con.execute(duck_sql(self.query)).fetchall())

    @property
    def result(self) -> Counter[Row]:
        """The stream table, its columns in the order of the query."""
        root = self.nodes[-1]
        positions = [root.plan.columns.index(c) for c in self.bound.columns]
        found: Counter[Row] = Counter()
        for row, count in self.content[root.name].items():
            found[tuple(row[p] for p in positions)] += count
        return found

    def _start(self) -> None:
        for name, table in self.tables.items():
            self._frame(f"{self.ids[name]}_new", table, list(table.rows.elements()))
        for node in self.nodes:
            steps, plan = with_steps(node.plan.at(At.NEW))
            for step in steps:
                self._compute(step)
            rows = Counter(self.run(plan))
            self.content[node.name] = rows
            self._settle(node, rows)

    def _settle(self, node: Node, rows: Counter[Row]) -> None:
        """Types of node tables follow from their plan; make all three frames from it."""
        described = self.con.execute(f"DESCRIBE {duck_sql(render(replace_by_start(node.plan)))}").fetchall()
        columns = tuple((r[0], r[1]) for r in described)
        table = Table(columns)
        for at in ("old", "new", "delta"):
            self._frame(
                f"{node.name}_{at}", table, list(rows.elements()) if at != "delta" else [], at == "delta"
            )
        self.logs[node.name] = [(*row, 1) for row in rows.elements()]
        self._frame(f"{node.name}_log", table, self.logs[node.name], weighted=True)
        self.tables_of_nodes = {**getattr(self, "tables_of_nodes", {}), node.name: table}

    def refresh(self, changes: dict[str, Counter[Row]]) -> dict[NodeRef, list[Row]]:
        """Apply changes of tables, then the delta program of every node; returns the net deltas."""
        changed: set[Reference] = set()
        for name, change in changes.items():
            table, source = self.tables[name], self.ids[name]
            self._frame(f"{source}_old", table, list(table.rows.elements()))
            new = Counter(table.rows)
            for row, weight in change.items():
                new[row] += weight
            assert all(n >= 0 for n in new.values())
            table.rows = +new
            self._frame(f"{source}_new", table, list(table.rows.elements()))
            delta = [(*row, 1 if w > 0 else -1) for row, w in change.items() for _ in range(abs(w))]
            self._frame(f"{source}_delta", table, delta, weighted=True)
            if delta:
                changed.add(source)
        for name in self.tables.keys() - changes.keys():
            table = self.tables[name]
            self._frame(f"{self.ids[name]}_old", table, list(table.rows.elements()))
        deltas: dict[NodeRef, list[Row]] = {}
        for node in self.nodes:
            deltas[node.name] = self._refresh_node(node, frozenset(changed))
            if deltas[node.name]:
                changed.add(node.name)
        for node in self.nodes:
            table = self.tables_of_nodes[node.name]
            self._frame(f"{node.name}_old", table, list(self.content[node.name].elements()))
            self.logs[node.name] += deltas[node.name]
            self._frame(f"{node.name}_log", table, self.logs[node.name], weighted=True)
        return deltas

    def delta_plan(self, node: Node, changed: frozenset[Reference]) -> Operator | None:
        """Arranged for few stored rows and for many in turn."""
        plan = differentiate_node(node.plan, node.own, changed)
        self.refreshes += 1
        if plan is None:
            return None
        few, stored = self.refreshes % 3 > 0, self.refreshes % 2 * 10**9
        sizes = Sizes(self._any_size, self._any_size, lambda _: (), self.refreshes % 5)
        return checked(order_joins(checked(arrange_change(checked(plan), few, lambda _: stored)), sizes))

    def _any_size(self, name: Reference) -> int:
        """The order of joins depends on it, their result does not."""
        return sum(map(ord, str(name))) * self.refreshes % 7

    def _refresh_node(self, node: Node, changed: frozenset[Reference]) -> list[Row]:
        plan = self.delta_plan(node, changed)
        if plan is None:
            return []
        here = evaluate_plan(Frames(self), plan)
        reducer = Reducer(Frames(self), self._is_few)
        reduced = reducer.reduce(plan)
        self._keep(reducer.kept)
        if reduced is None:
            assert not _net(self.run(plan)), "something is left of a change that was left out"
            return []
        steps, plan = with_steps(checked(reduced))
        for step in steps:
            self._compute(step)
        rows = self.run(plan)
        assert all(row[-1] in (1, -1) for row in rows)
        net = _net(rows)
        if isinstance(here, Evaluated):
            self.here += 1
            net = self._one_of(node, net_of(here.rows, plan.columns), net)
        new = Counter(self.content[node.name])
        for row, weight in net.items():
            new[row] += weight
        assert all(n >= 0 for n in new.values()), f"{node.name}: a row is gone more often than it was there"
        self.content[node.name] = +new
        table = self.tables_of_nodes[node.name]
        delta = [(*row, 1 if w > 0 else -1) for row, w in net.items() for _ in range(abs(w))]
        self._frame(f"{node.name}_new", table, list((+new).elements()))
        self._frame(f"{node.name}_delta", table, delta, weighted=True)
        return delta

    def _one_of(self, node: Node, here: Counter[Row], there: Counter[Row]) -> Counter[Row]:
        """Both ways lead to the same rows, but for how many are known to have an extremum."""
        calls = node.plan.calls if isinstance(node.plan, Aggregate) else ()
        bounds = {node.plan.columns.index(c.name) for c in calls if c.ties_of}
        one, other = (
            _net([(*(v for n, v in enumerate(row) if n not in bounds), w) for row, w in net.items()])
            for net in (here, there)
        )
        assert one == other
        self.taken[node.name] += 1
        return here if self.taken[node.name] % 2 else there

    def _is_few(self, rows: pa.Table) -> bool:
        """Some are kept, some are left to be computed again."""
        self.kept += 1
        return self.kept % 3 > 0

    def _keep(self, kept: dict[DriverRef, pa.Table]) -> None:
        for name, rows in kept.items():  # noqa: B007 DuckDB finds it by its name
            self.con.execute(f'CREATE OR REPLACE TABLE "frame_{name}_delta" AS SELECT * FROM rows')

    def _compute(self, step: Step) -> None:
        """Keys at once, a fixpoint round by round."""
        validate(step.plan)
        if isinstance(step.plan, Fixpoint):
            run_fixpoint(step.plan, step.name, Rounds(self, most_rows=self.most_rows))
        else:
            self._store(step.name, step.plan)

    def keep(self, name: ComputedRef, plan: Operator) -> str:
        """The table that holds the rows of a plan now."""
        steps, rest = with_steps(plan, name)
        for step in steps:
            self._compute(step)
        return self._store(name, rest)

    def _store(self, name: ComputedRef, plan: Operator) -> str:
        target = f'"frame_{name}_{"delta" if plan.weighted else "new"}"'
        self.con.execute(f"CREATE OR REPLACE TABLE {target} AS {duck_sql(render(plan))}")
        return target

    def _frame(self, name: str, table: Table, rows: list[Row], weighted: bool = False) -> None:
        kinds = [f'"{n}" {_TYPES.get(k, k)}' for n, k in table.columns] + (["_w INTEGER"] if weighted else [])
        target = name if name in self.tables else f"frame_{name}"
        self.con.execute(f'CREATE OR REPLACE TABLE "{target}" ({", ".join(kinds)})')
        if rows:
            marks = f"({', '.join('?' * len(kinds))})"
            values = ", ".join([marks] * len(rows))
            self.con.execute(f'INSERT INTO "{target}" VALUES {values}', [v for row in rows for v in row])


@dataclass
class Frames:
    """The frames of a world, for changes that are computed at the driver."""

    world: World
    rehearsal: bool = False

    def without_rows(self) -> Frames:
        return Frames(self.world, rehearsal=True)

    def read_change(self, source: Reference) -> pa.Table | Refusal:
        return self._frame(source, At.DELTA)

    def read_content(self, scan: Scan) -> pa.Table | Refusal:
        """Now and then a table counts as too large."""
        large = sum(map(ord, str(scan.source))) * self.world.refreshes % 2
        return Refusal("large") if large else self._frame(scan.source, scan.moment)

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        """Then it may be in memory, or not."""
        return self._frame(scan.source, scan.moment) if self.world.refreshes % 3 else Refusal("not there")

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> Lookup:
        rows = self._frame(scan.source, scan.moment)
        kind = rows.column(column).type
        return Lookup(rows.filter(pc.is_in(rows.column(column), value_set=values.cast(kind))))

    def _frame(self, source: Reference, at: At) -> pa.Table:
        rows = self.world.con.execute(f'SELECT * FROM "frame_{source}_{at.value}"').to_arrow_table()
        return rows.slice(0, 0) if self.rehearsal else rows


def net_of(rows: pa.Table, columns: tuple[str, ...]) -> Counter[Row]:
    """How often each row comes or goes."""
    found: Counter[Row] = Counter()
    values = [rows.column(c).to_pylist() for c in (*columns, "_w")]
    for *row, weight in zip(*values, strict=True):
        found[tuple(row)] += weight
    return Counter({r: w for r, w in found.items() if w})


@dataclass
class Rounds:
    """Fixpoints on DuckDB."""

    world: World
    table: str = "the stream table"
    most_rounds: int = 100
    most_rows: int = 10_000
    _tables: dict[ComputedRef, str] = field(default_factory=dict)

    def put(self, name: ComputedRef, plan: Operator) -> int:
        self._tables[name] = self.world.keep(name, plan)
        size = "coalesce(sum(abs(_w)), 0)" if plan.weighted else "count(*)"
        return int(self._execute(f"SELECT {size} FROM {self._tables[name]}").fetchall()[0][0])

    def copy(self, name: RoundRef, source: RoundRef) -> None:
        self._tables[name] = self._tables[source].replace(f"frame_{source}_", f"frame_{name}_")
        self._execute(f"CREATE OR REPLACE TABLE {self._tables[name]} AS FROM {self._tables[source]}")

    def add(self, name: RoundRef, source: RoundRef) -> None:
        self._execute(f"INSERT INTO {self._tables[name]} FROM {self._tables[source]}")

    def put_answer(self, name: StepRef, plan: Operator) -> None:
        self.put(name, plan)

    def add_remark(self, text: str) -> None:
        """Nobody asks for it here."""

    def _execute(self, text: str) -> duckdb.DuckDBPyConnection:
        return self.world.con.execute(text)


def _spark_type(name: str) -> str:
    known = {"INTEGER": "int", "BIGINT": "bigint", "VARCHAR": "string", "HUGEINT": "decimal(38,0)"}
    if name.startswith("STRUCT"):
        return sqlglot.exp.DataType.build(name, dialect="duckdb").sql("spark").lower()
    return known.get(name, name.lower())
