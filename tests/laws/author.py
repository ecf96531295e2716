"""Random histories: one method for each kind of step, and the strategy that strings them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.laws.history import TABLE, Column, History, Shape, Statement, Step, Transaction, Upkeep
from tests.laws.merging import merge
from tests.laws.phrases import Phrases, touching
from tests.laws.values import IDENTIFYING, KINDS, Sql, joined, literal, name, sql

_NAMES = ("a", "b", "c", "d", "e", "order", "Größe 1")
_KEYS = {"keyed": (True, True), "keyless": (False, False), "not enforced": (True, False)}
KEYS = tuple(_KEYS)


@dataclass
class Author:
    """Writes the next step of a history, and knows the table as the steps so far have left it."""

    phrases: Phrases

    @property
    def shape(self) -> Shape:
        return self.phrases.shape

    def step(self, kind: str) -> Step:
        return _WRITERS[kind](self)

    def _statement(self, kind: str, text: Sql, hits: str = "") -> Statement:
        return Statement(kind, text, self.shape, hits)

    def _where(self, prefix: str = "") -> Sql:
        return sql("WHERE {}", self.phrases.predicate(prefix))

    def _target(self) -> Sql:
        """The table to insert into; the other engine's has one column more."""
        return Sql(TABLE, f"{TABLE} ({joined([name(n) for n in self.shape.names]).duck})")

    # --- rows that come --------------------------------------------------------------------------

    def insert(self) -> Statement:
        """All columns, or some in any order: the others take their defaults."""
        p = self.phrases
        rows = p.rows(5)
        everything = p.values(rows, self.shape.columns)
        if p.often(0.6):
            return self._statement("insert", sql("INSERT INTO {} {}", self._target(), everything))
        optional = [c for c in p.plain_columns() if not c.required or c.default is not None]
        left_out = set(
            p.draw(st.lists(st.sampled_from([c.name for c in optional]), max_size=2)) if optional else ()
        )
        given = p.draw(st.permutations([c for c in self.shape.columns if c.name not in left_out]))
        defaults = {c.name: c.default for c in optional if c.name in left_out}
        told = p.values([{**row, **defaults} for row in rows], self.shape.columns).duck
        some = p.values(rows, given).spark
        names = joined([name(c.name) for c in given]).spark
        return self._statement(
            "insert",
            Sql(f"INSERT INTO {TABLE} ({names}) {some}", f"INSERT INTO {self._target().duck} {told}"),
        )

    def insert_select(self) -> Statement:
        text = sql("INSERT INTO {} {}", self._target(), self._query())
        return self._statement("insert_select", text)

    def _query(self) -> Sql:
        """Given rows, or rows of the table itself, moved so that their keys are new."""
        p = self.phrases
        if p.often(0.3):
            return sql("{} {}", p.relation(p.rows(4)), self._where())
        own = p.own_columns(shifted=self.shape.unique or p.often(0.5))
        return sql(f"SELECT {{}} FROM {TABLE} {{}}", own, self._where())

    def overwrite(self) -> Statement:
        p = self.phrases
        from_itself = p.often(0.5)
        if not from_itself:
            p.oldest = p.numbers
        query = self._query() if from_itself else p.values(p.rows(4), self.shape.columns)
        then = f"DELETE FROM {TABLE}; INSERT INTO {self._target().duck} SELECT * FROM fresh"
        return self._statement(
            "overwrite",
            Sql(
                f"INSERT OVERWRITE {TABLE} {query.spark}",
                f"CREATE OR REPLACE TEMP TABLE fresh AS {query.duck}; {then}",
            ),
        )

    # --- rows that change or go --------------------------------------------------------------------

    def update(self) -> Statement:
        p = self.phrases
        columns = p.some_columns()
        if p.often(0.8):
            changes = joined([sql("{} = {}", name(c.name), p.expression(c)) for c in columns])
            return self._statement(
                "update", sql(f"UPDATE {TABLE} SET {{}} {{}}", touching(changes), self._where())
            )
        changes = joined([sql("{} = {}", name(c.name), p.expression(c, f"{TABLE}.", "s.")) for c in columns])
        source, same = p.relation(p.rows(3)), self._same()
        text = sql(f"UPDATE {TABLE} SET {{}} FROM ({{}}) AS s WHERE {{}}", touching(changes), source, same)
        matched = f"FROM {TABLE}, ({source.duck}) AS s WHERE {same.duck}"
        hits = f"SELECT 1 {matched} GROUP BY {TABLE}.rowid HAVING count(*) > 1"
        return self._statement("update", text, hits)

    def _same(self) -> Sql:
        pairs = [sql("{} = {}", name(i, f"{TABLE}."), name(i, "s.")) for i in self.shape.ids]
        return joined(pairs, " AND ")

    def update_key(self) -> Statement:
        p = self.phrases
        column = self.shape.column(p.pick(self.shape.ids))
        number = literal(column.kind, column.kind.number(p.number(0.5)))
        steps = [sql(s, name(column.name)) for s in column.kind.steps]
        change = sql("{} = {}", name(column.name), p.pick([*steps, number]))
        return self._statement(
            "update_key", sql(f"UPDATE {TABLE} SET {{}} {{}}", touching(change), self._where())
        )

    def delete(self) -> Statement:
        p = self.phrases
        if p.often(0.8):
            return self._statement("delete", sql(f"DELETE FROM {TABLE} {{}}", self._where()))
        using = sql(f"DELETE FROM {TABLE} USING ({{}}) AS s WHERE {{}}", p.relation(p.rows(3)), self._same())
        return self._statement("delete", using)

    def truncate(self) -> Statement:
        self.phrases.oldest = self.phrases.numbers
        spark = self.phrases.pick([f"TRUNCATE TABLE {TABLE}", f"DELETE FROM {TABLE}"])
        return self._statement("truncate", Sql(spark, f"DELETE FROM {TABLE}"))

    def merge(self) -> Statement:
        text, hits = merge(self.phrases)
        return self._statement("merge", text, hits)

    # --- columns -----------------------------------------------------------------------------------

    def _alter(self, kind: str, text: Sql, shape: Shape) -> Statement:
        self.phrases.shape = shape
        return Statement(kind, sql(f"ALTER TABLE {TABLE} {{}}", text), shape)

    def add_column(self) -> Statement:
        p = self.phrases
        kind = KINDS[p.pick(tuple(KINDS))]
        default = p.pick(kind.pool) if kind.scalar and p.often(0.6) else None
        required = default is not None and p.often(0.3)
        free = [n for n in _NAMES if n not in self.shape.names]
        column = Column(p.pick(free), kind, required, default)
        spark = column.definition.spark
        duck = f"{name(column.name).duck} {kind.type.duck} DEFAULT {literal(kind, default).duck}"
        shape = replace(self.shape, columns=(*self.shape.columns, column))
        return self._alter("add_column", sql("ADD COLUMN {}", Sql(spark, duck)), shape)

    def drop_column(self) -> Statement:
        column = self.phrases.pick(self.phrases.plain_columns())
        shape = replace(self.shape, columns=tuple(c for c in self.shape.columns if c != column))
        return self._alter("drop_column", sql("DROP COLUMN {}", name(column.name)), shape)

    def rename_column(self) -> Statement:
        old = self.phrases.pick(self.shape.columns)
        new = replace(old, name=self.phrases.pick([n for n in _NAMES if n not in self.shape.names]))
        text = sql("RENAME COLUMN {} TO {}", name(old.name), name(new.name))
        return self._alter("rename_column", text, self.shape.with_column(old.name, new))

    def widen_column(self) -> Statement:
        old = self.phrases.pick([c for c in self.shape.columns if c.kind.wider])
        kind = KINDS[self.phrases.pick(old.kind.wider)]
        text = sql("ALTER COLUMN {} TYPE {}", name(old.name), kind.type)
        return self._alter("widen_column", text, self.shape.with_column(old.name, replace(old, kind=kind)))

    # --- the rest ----------------------------------------------------------------------------------

    def optimize(self) -> Upkeep:
        return Upkeep("optimize", f"OPTIMIZE {TABLE}")

    def vacuum(self) -> Upkeep:
        return Upkeep(
            "vacuum", self.phrases.pick([f"VACUUM {TABLE} RETAIN 0 HOURS", "VACUUM RETAIN 0 HOURS"])
        )

    def reconnect(self) -> Upkeep:
        return Upkeep("reconnect")

    def commit(self) -> Transaction:
        return Transaction(self._several(), commit=True)

    def rollback(self) -> Transaction:
        before = replace(self.phrases)
        undone = Transaction(self._several(), commit=False)
        self.phrases = before
        return undone

    def _several(self) -> tuple[Statement, ...]:
        kinds = self.phrases.draw(st.lists(st.sampled_from(IN_TRANSACTION), min_size=2, max_size=4))
        if kinds.count("drop_column") > 1:
            kinds.remove("drop_column")
        steps = [self.step(k) for k in kinds if k != "widen_column" or self._can_widen()]
        return tuple(s for s in steps if isinstance(s, Statement))

    def _can_widen(self) -> bool:
        return any(c.kind.wider for c in self.shape.columns)


ROW_KINDS = ("insert", "update", "merge", "delete", "update_key", "insert_select", "truncate", "overwrite")
_WRITERS: dict[str, Callable[[Author], Step]] = {
    "insert": Author.insert,
    "update": Author.update,
    "commit": Author.commit,
    "merge": Author.merge,
    "delete": Author.delete,
    "add_column": Author.add_column,
    "update_key": Author.update_key,
    "optimize": Author.optimize,
    "rename_column": Author.rename_column,
    "insert_select": Author.insert_select,
    "reconnect": Author.reconnect,
    "widen_column": Author.widen_column,
    "rollback": Author.rollback,
    "drop_column": Author.drop_column,
    "overwrite": Author.overwrite,
    "vacuum": Author.vacuum,
    "truncate": Author.truncate,
}
STEP_KINDS = tuple(_WRITERS)
# Row changes are weighted up; a transaction of definitions alone proves little.
IN_TRANSACTION = (*ROW_KINDS[:6], *ROW_KINDS, "add_column", "rename_column", "drop_column", "widen_column")


@st.composite
def shapes(draw: st.DrawFn, keys: str) -> Shape:
    """A table: one or two columns that identify rows, one that can be widened, and a few of any type."""
    keyed, enforced = _KEYS[keys]
    kinds = draw(st.lists(st.sampled_from(IDENTIFYING), min_size=1, max_size=2))
    ids = [Column(f"k{n}", KINDS[k]) for n, k in enumerate(kinds)]
    can_grow = Column("n", KINDS[draw(st.sampled_from(["int", "decimal", "float"]))])
    others = draw(st.lists(st.sampled_from(tuple(KINDS)), min_size=2, max_size=4, unique=True))
    columns = [*ids, can_grow]
    for title, kind_name in zip(("x", "y", "z", "w"), others, strict=False):
        kind = KINDS[kind_name]
        default = draw(st.sampled_from(kind.pool)) if kind.scalar and draw(st.booleans()) else None
        columns.append(Column(title, kind, draw(st.integers(0, 4)) == 4, default))
    return Shape(tuple(columns), tuple(c.name for c in ids), keyed, enforced)


@st.composite
def settings_of_a_connection(draw: st.DrawFn) -> dict[str, Any]:
    """Thresholds so low that tables compact themselves, or so high that they never do."""
    return {
        "compact_change_files": draw(st.sampled_from([2, 24])),
        "compact_change_ratio": draw(st.sampled_from([0.3, 0.0, 1000.0])),
        "broadcast_rows": draw(st.sampled_from([4_000_000, 0])),
    }


@st.composite
def history_pairs(draw: st.DrawFn, keys: str) -> tuple[History, History]:
    """Two histories that have every kind of step between them, in any order."""
    kinds = draw(st.permutations(STEP_KINDS))
    half = len(kinds) // 2
    return draw(_histories(keys, tuple(kinds[:half]))), draw(_histories(keys, tuple(kinds[half:])))


@st.composite
def _histories(draw: st.DrawFn, keys: str, kinds: tuple[str, ...]) -> History:
    shape = draw(shapes(keys))
    author = Author(Phrases(draw, shape))
    steps: list[Step] = [author.insert()]
    for kind in kinds:
        if kind == "widen_column" and not author._can_widen():
            kind = "add_column"
        steps.append(author.step(kind))
        if kind in ("truncate", "add_column"):  # an empty table proves little, and a new column wants values
            steps.append(author.insert())
    return History(shape, tuple(steps), draw(settings_of_a_connection()))
