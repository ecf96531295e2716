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
from spark_trickle.algebra.operators import At, Operator, Output, Project, Scan, column
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
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.algebra.stateful_operators import Aggregate
from spark_trickle.arrow.evaluate import Evaluated, Lookup, evaluate_plan
from spark_trickle.arrow.reduce import Reducer
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.plan.pipeline import (
    CHANGE,
    CONTENT,
    DEFINITION,
    FOR_SPARK,
    STEPS,
    Context,
    Tree,
    Trees,
    plan_trees,
)
from spark_trickle.plan.sizes import Sizes
from spark_trickle.plan.split import Node, number_nodes
from spark_trickle.refresh.fixpoint import run_fixpoint
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import Bound, ReadableTable
from spark_trickle.sql.bind.translate import read_expression
from spark_trickle.sql.render.query import render

Row = tuple[Any, ...]
FILL = (*CONTENT, *FOR_SPARK)
_TYPES = {"int": "INTEGER", "bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "boolean": "BOOLEAN"}


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


def _define_nodes(bound: Bound) -> tuple[Node, ...]:
    """The nodes of a definition, as they are loaded again; its columns are `out0`, `out1`, …"""
    outputs = tuple(Output(f"out{n}", column(c)) for n, c in enumerate(bound.columns))
    trees = plan_trees((Tree(Project(bound.plan, outputs)),), DEFINITION, Context())
    return number_nodes(load(dump(tuple(tree.plan for tree in trees)), read_expression))


class World:
    """Some tables and one stream table over them; plans take the same passes as those of Spark."""

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
        self.nodes = _define_nodes(self.bound)
        self.content: dict[NodeRef, Counter[Row]] = {}
        self.logs: dict[NodeRef, list[Row]] = {}
        self.refreshes = 0
        self.taken: Counter[NodeRef] = Counter()  # of changes that were computed in both ways
        self.kept = 0
        self.here = 0  # changes that were computed with Arrow as well
        self._start()

    # --- what the binder asks ----------------------------------------------------------------------

    def _find(self, parts: tuple[str, ...], home: str) -> ReadableTable | None:
        name = parts[-1].lower()
        return ReadableTable(self.ids[name], self.tables[name].names) if name in self.tables else None

    def _types(self, op: Operator) -> dict[str, str]:
        described = self.con.execute(f"DESCRIBE {duck_sql(render(replace_by_start(op)))}").fetchall()
        return {row[0]: _spark_type(row[1]) for row in described}

    # --- running -----------------------------------------------------------------------------------

    def run(self, op: Operator) -> list[Row]:
        return self.con.execute(duck_sql(render(op))).fetchall()

    def oracle(self) -> Counter[Row]:
        for name, table in self.tables.items():
            self._frame(name, table, list(table.rows.elements()))
        return Counter(self.con.execute(duck_sql(self.query)).fetchall())

    @property
    def result(self) -> Counter[Row]:
        """The stream table, its columns in the order of the query."""
        return Counter(self.content[self.nodes[-1].name])

    def _start(self) -> None:
        for name, table in self.tables.items():
            self._frame(f"{self.ids[name]}_new", table, list(table.rows.elements()))
        for node in self.nodes:
            rows = self._compute_net(plan_trees((Tree(node.plan, node.name),), FILL, Context()))
            assert all(times > 0 for times in rows.values())
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
        """For few changed rows and for many, few stored rows and many, in turn."""
        self.refreshes += 1
        few, stored = self.refreshes % 3 > 0, self.refreshes % 2 * 10**9

        def count_rows(name: Reference) -> int:
            return stored if isinstance(name, NodeRef) else self._any_size(name)

        sizes = Sizes(count_rows, self._any_size, lambda _: (), self.refreshes % 5)
        trees = plan_trees((Tree(node.plan, node.name),), CHANGE, Context(changed, sizes, few))
        return trees[-1].plan if trees else None

    def compare_in_full(self, node: Node) -> Counter[Row]:
        """How all rows of a node differ from those that are stored; a full refresh of few rows does the same."""
        context = Context(few=self.refreshes % 2 > 0, compared=True)
        trees = plan_trees((Tree(node.plan, node.name),), FILL, context)
        return self._without_bounds(node, self._compute_net(trees))

    def _any_size(self, name: Reference) -> int:
        """The order of joins depends on it, their result does not."""
        return sum(map(ord, str(name))) * self.refreshes % 7

    def _refresh_node(self, node: Node, changed: frozenset[Reference]) -> list[Row]:
        plan = self.delta_plan(node, changed)
        if plan is None:
            return []
        here = evaluate_plan(Frames(self), plan)
        reducer = Reducer(Frames(self), self._is_few)
        trees = plan_trees((Tree(plan, node.name),), FOR_SPARK, Context(reduce=reducer.reduce))
        self._keep(reducer.kept)
        if not trees:
            assert not _net(self.run(plan)), "something is left of a change that was left out"
            return []
        net = self._compute_net(trees)
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
        assert self._without_bounds(node, here) == self._without_bounds(node, there)
        self.taken[node.name] += 1
        return here if self.taken[node.name] % 2 else there

    def _without_bounds(self, node: Node, net: Counter[Row]) -> Counter[Row]:
        """How many rows have an extremum is known at least, and not always exactly."""
        calls = node.plan.calls if isinstance(node.plan, Aggregate) else ()
        bounds = {node.plan.columns.index(c.name) for c in calls if c.ties_of}
        return _net([(*(v for n, v in enumerate(row) if n not in bounds), w) for row, w in net.items()])

    def _is_few(self, rows: pa.Table) -> bool:
        """Some are kept, some are left to be computed again."""
        self.kept += 1
        return self.kept % 3 > 0

    def _keep(self, kept: dict[DriverRef, pa.Table]) -> None:
        for name, rows in kept.items():  # noqa: B007 DuckDB finds it by its name
            self.con.execute(f'CREATE OR REPLACE TABLE "frame_{name}_delta" AS SELECT * FROM rows')

    def _compute_net(self, trees: Trees) -> Counter[Row]:
        """The change that the last of some trees gives; those before it are its steps."""
        rows = self.run(self._compute_steps(trees))
        assert all(row[-1] in (1, -1) for row in rows)
        return _net(rows)

    def _compute_steps(self, trees: Trees) -> Operator:
        """Keys at once, a fixpoint round by round; what is left is the plan after its steps."""
        *steps, rest = trees
        for tree in steps:
            assert tree.step is not None
            if isinstance(tree.plan, Fixpoint):
                run_fixpoint(tree.plan, tree.step, Rounds(self, most_rows=self.most_rows))
            else:
                self._store(tree.step, tree.plan)
        return rest.plan

    def keep(self, name: ComputedRef, plan: Operator) -> str:
        """The table that holds the rows of a plan now."""
        return self._store(
            name, self._compute_steps(plan_trees((Tree(plan),), (STEPS,), Context(within=name)))
        )

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
