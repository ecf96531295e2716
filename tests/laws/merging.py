"""Random MERGE statements, and the query that tells whether one must be refused."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.laws.history import TABLE, Column
from tests.laws.phrases import Phrases, touching
from tests.laws.values import Sql, joined, literal, name, sql

_TARGET = f"{TABLE}."


@dataclass(frozen=True)
class _Clause:
    action: str
    when: str
    condition: Sql | None
    then: Sql

    @property
    def text(self) -> Sql:
        condition = sql(" AND {}", self.condition) if self.condition else sql("")
        return sql("WHEN {}{} THEN {}", self.when, condition, self.then)


def merge(p: Phrases) -> tuple[Sql, str]:
    source = _source(p)
    same = joined([sql(_equal(p), name(i, _TARGET), name(i, "s.")) for i in p.shape.ids], " AND ")
    matched = _matched(p)
    missing = [] if p.often(0.3) else [_missing(p)]
    alone = [_alone(p)] if p.often(0.3) or not (matched or missing) else []
    clauses = joined([c.text for c in matched + missing + alone], " ")
    text = sql(f"MERGE INTO {TABLE} USING {{}} ON {{}} {{}}", source, same, clauses)
    return Sql(text.spark, f"{text.duck} RETURNING merge_action"), _hits(source, same, matched)


def _source(p: Phrases) -> Sql:
    """Given rows, or rows of the table itself; the columns named inside the alias, or before it."""
    if p.often(0.2):
        own = p.own_columns(shifted=p.often(0.5))
        return sql(f"(SELECT {{}} FROM {TABLE} WHERE {{}}) AS s", own, p.predicate())
    rows = [p.row(0.4) for _ in range(p.draw(st.integers(1, 4)))]
    if p.often(0.6):
        return sql("({}) AS s", p.relation(rows))
    names = joined([name(n) for n in p.shape.names])
    return sql("({}) AS s({})", p.values(rows, p.shape.columns), names)


def _equal(p: Phrases) -> Sql:
    return p.pick([Sql("{} = {}", "{} = {}"), Sql("{} <=> {}", "{} IS NOT DISTINCT FROM {}")])


def _matched(p: Phrases) -> list[_Clause]:
    """None, one, or two of which the first has a condition."""
    count = p.pick([1, 2, 0])
    found = []
    for n in range(count):
        conditional = n + 1 < count or p.often(0.3)
        condition = p.predicate(p.pick([_TARGET, "s."]), False) if conditional else None
        action = p.pick(["update", "update", "delete"])
        then = sql("DELETE") if action == "delete" else _update(p, "s.")
        found.append(_Clause(action, "MATCHED", condition, then))
    return found


def _missing(p: Phrases) -> _Clause:
    condition = p.predicate("s.", False) if p.often(0.3) else None
    everything = sql("({}) VALUES ({})", _names(p.shape.columns), _names(p.shape.columns, "s."))
    if p.often(0.5):
        return _Clause("insert", "NOT MATCHED", condition, sql(Sql("INSERT *", "INSERT {}"), everything))
    columns = [c for c in p.shape.columns if c.name in p.shape.ids or c.required or p.often(0.7)]
    given = sql("({}) VALUES ({})", _names(columns), _names(columns, "s."))
    told = [name(c.name, "s.") if c in columns else literal(c.kind, c.default) for c in p.shape.columns]
    full = sql("({}) VALUES ({})", _names(p.shape.columns), joined(told))
    return _Clause("insert", "NOT MATCHED", condition, sql("INSERT {}", Sql(given.spark, full.duck)))


def _alone(p: Phrases) -> _Clause:
    condition = p.predicate(_TARGET, False) if p.often(0.5) else None
    action = p.pick(["delete", "update"])
    then = sql("DELETE") if action == "delete" else _update(p, "")
    return _Clause(action, "NOT MATCHED BY SOURCE", condition, then)


def _update(p: Phrases, source: str) -> Sql:
    if source and p.often(0.3):
        pairs = [sql("{} = {}", name(n), name(n, source)) for n in p.shape.names]
        return sql(Sql("UPDATE SET *", "UPDATE SET {}"), touching(joined(pairs)))
    pairs = [sql("{} = {}", name(c.name), p.expression(c, _TARGET, source)) for c in p.some_columns()]
    return sql("UPDATE SET {}", touching(joined(pairs)))


def _names(columns: tuple[Column, ...] | list[Column], prefix: str = "") -> Sql:
    return joined([name(c.name, prefix) for c in columns])


def _hits(source: Sql, same: Sql, matched: list[_Clause]) -> str:
    """Target rows that several source rows change; only to be deleted twice is no contradiction."""
    if not matched:
        return ""
    cases = " ".join(f"WHEN {c.condition.duck if c.condition else 'true'} THEN '{c.action}'" for c in matched)
    inner = f"SELECT {TABLE}.rowid AS r, CASE {cases} END AS a FROM {TABLE} JOIN {source.duck} ON {same.duck}"
    several = "GROUP BY r HAVING count(*) > 1 AND bool_or(a <> 'delete')"
    return f"SELECT r FROM ({inner}) WHERE a IS NOT NULL {several}"
