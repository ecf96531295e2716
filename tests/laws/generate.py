"""A source of chance -> a query over t(id, k, v, s) and u(id, k, w), deterministic and the same in Spark and DuckDB.

Every choice has its simplest answer first, so that hypothesis makes a failing query smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")

INT, TEXT, BOOL = "int", "text", "bool"
HALF = "half"  # a double that sums exactly
REAL = "real"  # a double that must not be added to others: the order would show
TABLES = {
    "t": (("id", INT), ("k", INT), ("v", INT), ("s", TEXT)),
    "u": (("id", INT), ("k", INT), ("w", INT)),
}


@dataclass(frozen=True)
class Column:
    sql: str
    kind: str


Columns = tuple[Column, ...]


@dataclass(frozen=True)
class Query:
    """The text of a query, and its columns by name."""

    sql: str
    columns: Columns
    limited: bool = False  # it ends in ORDER BY and LIMIT

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(c.kind for c in self.columns)


@dataclass(frozen=True)
class Scope:
    """What expressions may name here, and in the query around."""

    here: Columns
    around: Columns = ()
    depth: int = 0  # how deep subqueries may still go
    known: Columns | None = None  # what subqueries may know of a row here, if not everything

    @property
    def shown(self) -> Columns:
        return self.here if self.known is None else self.known

    def of(self, kind: str) -> list[str]:
        return [c.sql for c in self.here if c.kind == kind]

    @property
    def total(self) -> str:
        """An order in which only equal rows are ties."""
        return ", ".join(c.sql for c in self.here)


@dataclass
class Author:
    """Writes one query."""

    chance: Random
    ctes: dict[str, Columns] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    def pick(self, first: _T, *others: _T) -> _T:
        return self.chance.choice((first, *others))

    def some(self, choices: Sequence[_T], most: int = 2) -> list[_T]:
        """One or a few, in the order they are given."""
        chosen = {self.chance.randrange(len(choices)) for _ in range(self.chance.randint(1, most))}
        return [choices[n] for n in sorted(chosen)]

    def one_in(self, n: int) -> bool:
        return self.chance.randrange(n) == n - 1

    def fresh(self, hint: str) -> str:
        return f"{hint}{next(self.numbers)}"

    # --- whole queries ---------------------------------------------------------------------------------

    def whole(self, depth: int = 3) -> Query:
        """A query with or without CTEs; one that is used twice meets itself."""
        if not self.one_in(4):
            return self.query(depth)
        clause = self.recursion(depth) if self.one_in(3) else self.common(depth)
        main = self.query(depth)
        return replace(main, sql=f"WITH {clause} {main.sql}")

    def common(self, depth: int) -> str:
        name, body = self.fresh("c"), self.query(depth - 1)
        self.ctes[name] = body.columns
        return f"{name} AS ({body.sql})"

    def recursion(self, depth: int) -> str:
        """Pairs and what follows from them; it ends because values are only passed on, or because it counts."""
        name, last, base = self.fresh("c"), self.fresh("r"), self.query(depth - 1, (INT, INT))
        a, b = (Column(f"{last}.{c}", INT) for c in "ab")
        alias = self.fresh("p")
        start = f"SELECT DISTINCT {_wide(*(f'{alias}.{c.sql}' for c in base.columns))}"
        step, found = self.step(name, Scope((a, b)))
        then = f"SELECT {_wide(a.sql, found)}"
        if self.one_in(3):
            text = (
                f"{start}, 0 FROM ({base.sql}) {alias} UNION ALL {then}, {last}.n + 1 {step} AND {last}.n < 2"
            )
            columns = (Column("a", INT), Column("b", INT), Column("n", INT))
        else:
            text = f"{start} FROM ({base.sql}) {alias} UNION {then} {step}"
            columns = (Column("a", INT), Column("b", INT))
        self.ctes[name] = columns
        return f"RECURSIVE {name}({', '.join(c.sql for c in columns)}) AS ({text})"

    def step(self, name: str, last: Scope) -> tuple[str, str]:
        """FROM and WHERE of a step, and the column that is found there."""
        other, there = self.relation(0)
        a, b = (c.sql for c in last.here)
        alias = a.partition(".")[0]
        found = self.chance.choice(Scope(there).of(INT))
        tie = f"{b} = {self.chance.choice(Scope(there).of(INT))}"
        test = self.plain_condition(Scope((*last.here, *there)))
        match self.pick("join", "join", "comma", "left", "right"):
            case "join":
                return f"FROM {name} {alias} JOIN {other} ON {tie} WHERE {a} <> {found}", found
            case "comma":
                return f"FROM {name} {alias}, {other} WHERE {tie} AND {test}", found
            case "left":
                return f"FROM {name} {alias} LEFT JOIN {other} ON {tie} WHERE ({test} OR {a} > 1)", found
        return f"FROM {other} JOIN {name} {alias} ON {tie} WHERE {found} IN (SELECT u.k FROM u)", found

    def query(self, depth: int, kinds: tuple[str, ...] = (), around: Columns = ()) -> Query:
        """A query with columns of these kinds; of any, if none are asked for."""
        forms = [self.rows, self.groups, self.rows, self.groups, self.windows, self.first_rows]
        if depth > 0:
            forms += [self.set_operation, self.set_operation]
        return self.chance.choice(forms)(depth, kinds or self.kinds(), around)

    def kinds(self) -> tuple[str, ...]:
        """A number first, so that whoever reads the query has one to go on with."""
        others = (self.pick(INT, INT, INT, TEXT, BOOL, HALF) for _ in range(self.chance.randint(0, 2)))
        return (INT, *others)

    def named(self, items: list[tuple[str, str]]) -> tuple[str, Columns]:
        names = [self.fresh("x") for _ in items]
        listed = ", ".join(f"{sql} AS {name}" for (sql, _), name in zip(items, names, strict=True))
        return listed, tuple(Column(n, kind) for n, (_, kind) in zip(names, items, strict=True))

    def source(self, depth: int, around: Columns) -> tuple[str, Scope]:
        """FROM and WHERE, and what may be named after them."""
        text, here, ties = self.from_clause(depth, around)
        scope = Scope(here, around, depth)
        tests = [self.condition(scope) for _ in range(self.pick(0, 0, 0, 0, 1, 1, 2))]
        if around and (not tests or not self.one_in(4)):
            tests.insert(0, self.tie(here, around))
        tests = [*ties, *tests]
        return f"FROM {text}{' WHERE ' if tests else ''}{' AND '.join(tests)}", scope

    def tie(self, here: Columns, around: Columns) -> str:
        """A condition between the rows of a subquery and the row around it."""
        keys = [[c.sql for c in side if c.sql.endswith(".k")] for side in (here, around)]
        if all(keys) and self.pick(True, False):
            mine, theirs = (self.chance.choice(k) for k in keys)
        else:
            mine, theirs = (self.chance.choice(Scope(c).of(INT) or ["1"]) for c in (here, around))
        return f"{mine} {self.pick('=', '=', '=', '=', '<', '<=>')} {theirs}"

    def rows(self, depth: int, kinds: tuple[str, ...], around: Columns) -> Query:
        source, scope = self.source(depth, around)
        items = [(self.value(k, scope, 2), k) for k in kinds]
        if depth > 0 and self.one_in(6):
            items[0] = (self.scalar(scope, kinds[0]), kinds[0]) if kinds[0] == INT else items[0]
        listed, columns = self.named(items)
        return Query(f"SELECT {'DISTINCT ' if self.one_in(5) else ''}{listed} {source}", columns)

    def groups(self, depth: int, kinds: tuple[str, ...], around: Columns) -> Query:
        source, scope = self.source(depth, around)
        inner = replace(scope, depth=0, around=())
        several = not around and self.one_in(6)
        keys = self.plain_keys(inner) if several else self.keys(inner)
        group = f" GROUP BY {', '.join(k.sql for k in keys)}" if keys else ""
        sets = self.grouping_sets([k.sql for k in keys]) if several and len(keys) > 1 else ""
        calls = [self.number(inner), *(self.call(inner) for _ in range(self.chance.randint(0, 2)))]
        calls += self.groupings(keys) if sets else []
        # An outer column in the list of an aggregate is a matter of its own, which engines see differently.
        above = Scope((*keys, *calls), (), depth, known=tuple(k for k in keys if _is_name(k.sql)))
        listed, columns = self.named([self.above(k, above) for k in kinds])
        having = f" HAVING {self.condition(above)}" if self.one_in(5) else ""
        if not group and not having and not any(c.sql in listed for c in calls):
            having = " HAVING count(*) >= 0"  # or it would be no aggregate at all
        return Query(f"SELECT {listed} {source}{sets or group}{having}", columns)

    def keys(self, scope: Scope) -> list[Column]:
        keys = [Column(self.key(scope), INT) for _ in range(self.chance.randint(0, 2))]
        if keys and self.one_in(4) and (texts := scope.of(TEXT)):
            keys.append(Column(self.chance.choice(texts), TEXT))
        return list(dict.fromkeys(keys))

    def plain_keys(self, scope: Scope) -> list[Column]:
        found = [c for c in scope.here if c.kind in (INT, TEXT)]
        return self.some(found, 4) if found else []

    def grouping_sets(self, plain: list[str]) -> str:
        """Never the empty set: engines differ in what it makes of no rows."""
        every, first, rest = ", ".join(plain), plain[0], ", ".join(plain[1:])
        return self.pick(
            f" GROUP BY GROUPING SETS (({every}), {', '.join(f'({k})' for k in plain)})",
            f" GROUP BY {first}, ROLLUP ({rest})",
            f" GROUP BY {first}, CUBE ({rest})",
            f" GROUP BY GROUPING SETS (({rest}), ({first}))",
        )

    def groupings(self, keys: list[Column]) -> list[Column]:
        names = [k.sql for k in keys]
        return [Column(f"grouping({n})", INT) for n in names] + [
            Column(f"grouping_id({', '.join(names)})", INT)
        ]

    def above(self, kind: str, scope: Scope) -> tuple[str, str]:
        if kind == INT and self.one_in(6):
            return self.window(scope, tied=True), INT
        return self.value(kind, scope, 1), kind

    def windows(self, depth: int, kinds: tuple[str, ...], around: Columns) -> Query:
        source, scope = self.source(depth, around)
        # Equal rows have numbers of their own: which of them gets which must not be told by two.
        at = self.chance.randrange(len(kinds) + 1)
        items = [
            (self.window(scope, tied=n != at) if k == INT else self.value(k, scope, 1), k)
            for n, k in enumerate(kinds)
        ]
        listed, columns = self.named(items)
        qualify = ""
        if at == len(kinds):
            numbered = f"row_number() OVER ({self.partition(scope)}ORDER BY {scope.total})"
            qualify = f" QUALIFY {numbered} {self.pick('= 1', '<= 2')}"
        return Query(f"SELECT {listed} {source}{qualify}", columns)

    def first_rows(self, depth: int, kinds: tuple[str, ...], around: Columns) -> Query:
        """LIMIT with a total order."""
        forms = [self.rows, self.groups, *([self.set_operation] if depth > 0 else [])]
        body = self.chance.choice(forms)(depth, kinds, around)
        order = ", ".join(
            f"{n}{self.pick('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST')}"
            for n in range(1, len(kinds) + 1)
        )
        limit = f" LIMIT {0 if self.one_in(30) else self.pick(3, 1, 2, 4, 5, 8, 13)}"
        offset = f" OFFSET {self.pick(1, 2)}"
        part = self.pick(limit, limit, limit, limit + offset, offset)
        return replace(body, limited=True, sql=f"{body.sql} ORDER BY {order}{part}")

    def set_operation(self, depth: int, kinds: tuple[str, ...], around: Columns) -> Query:
        how = self.pick(
            *("UNION ALL", "UNION ALL", "UNION ALL", "UNION", "UNION"),
            *("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"),
        )
        # Rows of two complicated queries are hardly ever the same.
        form = self.query if "UNION" in how or self.one_in(3) else self.rows
        left = form(depth - 1, kinds, around)
        if left.limited:
            left = self.rows(depth - 1, kinds, around)
        # An integer beside a double becomes one.
        others = tuple(INT if k == HALF and self.one_in(3) else k for k in left.kinds)
        right = form(depth - 1, others, around)
        return replace(left, sql=f"{left.sql} {how} ({right.sql})")

    # --- FROM ------------------------------------------------------------------------------------------

    def from_clause(self, depth: int, around: Columns) -> tuple[str, Columns, list[str]]:
        """Relations joined, what may be named of them, and conditions that are left to WHERE."""
        text, here = self.relation(depth)
        if self.one_in(8) and (found := self.joined_by_name(text, here)):
            return *found, []
        joins = self.pick(0, 0, 0, 1, 1, 1, 2)
        by_comma = joins > 0 and self.one_in(5)
        for _ in range(joins - by_comma):
            text, here = self.joined(text, here, depth)
        if by_comma:
            other, there = self.relation(depth - 1)
            return f"{text}, {other}", here + there, [self.tie(here, there)]
        if depth > 0 and not around and self.one_in(8):
            return *self.lateral(text, here, depth), []
        return text, here, []

    def relation(self, depth: int) -> tuple[str, Columns]:
        alias = self.fresh("r")
        if self.ctes and not self.one_in(3):
            name = self.chance.choice(sorted(self.ctes))
            return f"{name} {alias}", self.columns_of(alias, self.ctes[name])
        if depth > 0 and self.one_in(3):
            inner = self.query(depth - 1)
            return f"({inner.sql}) {alias}", self.columns_of(alias, inner.columns)
        return self.table(alias)

    def table(self, alias: str) -> tuple[str, Columns]:
        name = self.pick("t", "u")
        return f"{name} {alias}", tuple(Column(f"{alias}.{c}", kind) for c, kind in TABLES[name])

    def constants(self, alias: str) -> tuple[str, Columns]:
        columns = (Column(f"{alias}.k", INT), Column(f"{alias}.s", TEXT))
        return f"VALUES (1, 'a'), (2, NULL), (3, 'b') AS {alias}(k, s)", columns

    def columns_of(self, alias: str, columns: Columns) -> Columns:
        return tuple(Column(f"{alias}.{c.sql}", c.kind) for c in columns)

    def joined(self, text: str, here: Columns, depth: int) -> tuple[str, Columns]:
        kind = self.pick(
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
            "CROSS JOIN",
        )
        if kind == "CROSS JOIN":
            other, there = self.table(self.fresh("r"))  # anything else may be large
            return f"{text} {kind} {other}", here + there
        other, there = self.constants(self.fresh("r")) if self.one_in(15) else self.relation(depth - 1)
        tests = [self.tie(here, there) for _ in range(self.pick(1, 1, 1, 1, 2))]
        if self.one_in(4):
            tests.append(self.plain_condition(Scope(here + there)))
        if kind == "FULL JOIN" and not any(" = " in t for t in tests):
            kind = "LEFT JOIN"  # DuckDB has no other full join
        kept = here if "SEMI" in kind or "ANTI" in kind else here + there
        return f"{text} {kind} {other} ON {' AND '.join(tests)}", kept

    def joined_by_name(self, text: str, here: Columns) -> tuple[str, Columns] | None:
        """USING and NATURAL, only between two tables: their names would be ambiguous beside others."""
        first, _, alias = text.partition(" ")
        if first not in TABLES or " " in alias:
            return None
        natural = self.one_in(3)
        other, name = self.fresh("r"), "tu"[first == "t"] if natural else self.pick("u", "t")
        shared = ("id", "k") if natural else self.pick(("k",), ("k",), ("id",), ("id", "k"))
        kind = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        there = tuple(Column(f"{other}.{c}", kind) for c, kind in TABLES[name] if c not in shared)
        mine = tuple(c for c in here if c.sql.partition(".")[2] not in shared)
        joined = (
            f"NATURAL {kind} {name} {other}"
            if natural
            else f"{kind} {name} {other} USING ({', '.join(shared)})"
        )
        return f"{text} {joined}", (*(Column(c, INT) for c in shared), *mine, *there)

    def lateral(self, text: str, here: Columns, depth: int) -> tuple[str, Columns]:
        alias = self.fresh("l")
        form = self.pick(self.rows, self.groups, self.first_rows)
        inner = form(depth - 1, self.kinds(), here)
        there = self.columns_of(alias, inner.columns)
        how = self.pick("{} CROSS JOIN LATERAL {}", "{} LEFT JOIN LATERAL {} ON true", "{}, LATERAL {}")
        return how.format(text, f"({inner.sql}) {alias}"), here + there

    # --- expressions -----------------------------------------------------------------------------------

    def value(self, kind: str, scope: Scope, depth: int) -> str:
        found = scope.of(kind)
        if (outside := [c.sql for c in scope.around if c.kind == kind]) and self.one_in(10):
            return self.chance.choice(outside)
        if found and (depth == 0 or not self.one_in(3)):
            return self.chance.choice(found)
        if kind == BOOL:
            return f"({self.condition(scope)})"
        if kind == HALF:
            if depth > 0 and scope.depth > 0 and self.one_in(6):
                return self.scalar(scope, HALF)
            return f"(CAST({self.value(INT, scope, max(depth - 1, 0))} AS DOUBLE) / 2)"
        if not found and kind == TEXT and (numbers := scope.of(INT)):
            return f"CAST({self.chance.choice(numbers)} AS STRING)"
        if depth == 0:
            return self.literal(kind)
        if scope.depth > 0 and kind == INT and self.one_in(6):
            return self.scalar(scope, INT)
        return self.composed(kind, scope, depth - 1)

    def literal(self, kind: str) -> str:
        return self.pick("'a'", "'b'") if kind == TEXT else self.pick("1", "2", "2", "3", "0")

    def composed(self, kind: str, scope: Scope, depth: int) -> str:
        a, b = self.value(kind, scope, depth), self.value(kind, scope, 0)
        case = f"CASE WHEN {self.plain_condition(scope)} THEN {a} ELSE {b} END"
        if kind == TEXT:
            return self.pick(a, f"coalesce({a}, 'z')", f"({a} || 'x')", f"upper({a})", case)
        return self.pick(
            a, f"({a} + {b})", f"({a} - {b})", f"coalesce({a}, 0)", f"({a} % 3)", f"nullif({a}, 1)", case
        )

    def key(self, scope: Scope) -> str:
        found = scope.of(INT)
        if not found:
            return f"coalesce({self.value(INT, scope, 1)}, 0)"
        chosen = self.chance.choice(found)
        return self.pick(chosen, chosen, chosen, f"({chosen} % 2)", f"coalesce({chosen}, 0)")

    def call(self, scope: Scope) -> Column:
        if self.pick(True, True, False):
            return self.number(scope)
        choices = [
            Column(f"avg({self.distinct()}{self.value(INT, scope, 1)})", REAL),
            Column(f"sum({self.value(HALF, scope, 1)})", HALF),
            Column(f"max({self.value(TEXT, scope, 1)})", TEXT),
            Column(f"bool_or({self.plain_condition(scope)})", BOOL),
        ]
        return self.filtered(self.chance.choice(choices), scope)

    def number(self, scope: Scope) -> Column:
        """An aggregate that is a whole number."""
        number = self.value(INT, scope, 1)
        choices = [
            "count(*)",
            f"sum({self.distinct()}{number})",
            f"count({self.distinct()}{number})",
            f"min({number})",
            f"max({number})",
            f"count(DISTINCT {number}, {self.value(INT, scope, 0)})",
        ]
        return self.filtered(Column(self.chance.choice(choices), INT), scope)

    def distinct(self) -> str:
        return "DISTINCT " if self.one_in(3) else ""

    def filtered(self, call: Column, scope: Scope) -> Column:
        kept = f" FILTER (WHERE {self.plain_condition(scope)})" if self.one_in(4) else ""
        return replace(call, sql=f"{call.sql}{kept}")

    def partition(self, scope: Scope) -> str:
        found = scope.of(INT) + scope.of(TEXT)
        if not found or self.one_in(5):
            return ""
        return f"PARTITION BY {', '.join(self.some(found))} "

    def window(self, scope: Scope, tied: bool) -> str:
        """A window function; a `tied` one gives equal rows the same value."""
        by, number = self.partition(scope), self.value(INT, replace(scope, depth=0, around=()), 1)
        some = self.chance.choice([c.sql for c in scope.here])
        frame = self.pick(
            "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        )
        down = self.pick("", " DESC", " NULLS LAST")
        found = [
            f"count(*) OVER ({by})",
            f"sum({number}) OVER ({by})",
            f"max({number}) OVER ({by})",
            f"rank() OVER ({by}ORDER BY {some}{down})",
            f"dense_rank() OVER ({by}ORDER BY {some}{down})",
            f"sum({number}) OVER ({by}ORDER BY {some}{down})",
            f"first_value({number}) OVER ({by}ORDER BY {scope.total}{down})",
            f"{self.pick('first_value', 'last_value')}({number}) IGNORE NULLS OVER ({by}ORDER BY {scope.total})",
        ]
        if not tied:
            found += [
                f"row_number() OVER ({by}ORDER BY {scope.total}{down})",
                f"sum({number}) OVER ({by}ORDER BY {scope.total} {frame})",
                f"{self.pick('lag', 'lead')}({number}) OVER ({by}ORDER BY {scope.total})",
                f"lag({number}) IGNORE NULLS OVER ({by}ORDER BY {scope.total})",
                f"ntile(2) OVER ({by}ORDER BY {scope.total})",
            ]
        return self.chance.choice(found)

    # --- conditions ------------------------------------------------------------------------------------

    def condition(self, scope: Scope) -> str:
        if scope.depth <= 0 or not self.one_in(3):
            return self.plain_condition(scope)
        found = self.subquery_condition(scope)
        return self.pick(
            found,
            found,
            f"({found} OR {self.plain_condition(scope)})",
            f"NOT ({found} AND {self.plain_condition(scope)})",
            f"(CASE WHEN {self.plain_condition(scope)} THEN {found} ELSE {self.plain_condition(scope)} END)",
        )

    def plain_condition(self, scope: Scope) -> str:
        number = self.value(INT, replace(scope, depth=0), self.pick(0, 0, 1))
        how = self.pick(">", ">=", "<>", "<>", "<", "=", "<=>")
        compared = f"{number} {how} {self.operand(scope, number)}"
        tests = [
            compared,
            compared,
            f"{number} IS NOT NULL",
            f"{number} IN (1, 2, 3)",
            f"{number} NOT IN (1, 7)",
            f"NOT ({number} NOT IN (2, 3, NULL))",
        ]
        tests += [f"({compared} OR {number} IS NULL)", f"NOT ({compared})"]
        tests += [f"{s} = 'a'" for s in scope.of(TEXT)[:1]] + scope.of(BOOL)[:1]
        tests += [f"{h} > 1" for h in scope.of(HALF)[:1]]
        return self.chance.choice(tests)

    def operand(self, scope: Scope, other: str) -> str:
        found = [c for c in scope.of(INT) if c != other]
        return self.chance.choice(found) if found and self.pick(False, True) else self.literal(INT)

    def around(self, scope: Scope) -> Columns:
        """What a subquery knows: nothing, the row around it, or also the row around that one."""
        if not self.pick(False, True, True):
            return ()
        # A name without its table would be taken for one of the subquery's own.
        shown = tuple(c for c in scope.shown if "." in c.sql)
        return (*shown, *scope.around) if self.one_in(3) else shown

    def inner(self, scope: Scope, kinds: tuple[str, ...]) -> Query:
        """A subquery that knows the row around it, or does not."""
        around = self.around(scope)
        return self.query(scope.depth - 1, kinds, around)

    def subquery_condition(self, scope: Scope) -> str:
        number = self.value(INT, replace(scope, depth=0), self.pick(0, 0, 1))
        negated = self.pick("", "NOT ")
        match self.pick("exists", "in", "scalar", "pair", "any"):
            case "exists":
                return f"{negated}EXISTS ({self.inner(scope, ()).sql})"
            case "in":
                return f"{number} {negated}IN {self.members(scope)}"
            case "scalar":
                return f"{number} {self.pick('=', '<', '>')} {self.scalar(scope, self.pick(INT, HALF))}"
            case "pair":
                return f"{self.pair(number, scope)} {negated}IN {self.pairs(scope)}"
        how = self.pick("> ANY", "<= ALL", "= ANY", "<> ALL")
        return f"{number} {how} ({self.inner(scope, (INT,)).sql})"

    def members(self, scope: Scope) -> str:
        """With nulls or without: one is enough to make NOT IN true of nothing."""
        if self.pick(True, False):
            return f"({self.inner(scope, (INT,)).sql})"
        found, alias = self.query(scope.depth - 1, (INT,)), self.fresh("p")
        value = f"{alias}.{found.columns[0].sql}"
        return f"(SELECT {value} FROM ({found.sql}) {alias} WHERE {value} IS NOT NULL)"

    def pair(self, number: str, scope: Scope) -> str:
        return f"(coalesce({number}, 0), coalesce({self.value(INT, replace(scope, depth=0), 0)}, 0))"

    def pairs(self, scope: Scope) -> str:
        """Without nulls: DuckDB takes one in a row of values for a value like others."""
        rows, alias = self.query(scope.depth - 1, (INT, INT)), self.fresh("p")
        one, two = (c.sql for c in rows.columns)
        known = f"{one} IS NOT NULL AND {two} IS NOT NULL"
        return f"(SELECT {one}, {two} FROM ({rows.sql}) {alias} WHERE {known})"

    def scalar(self, scope: Scope, kind: str) -> str:
        """A subquery with exactly one row, or at most one."""
        around = self.around(scope)
        source, inside = self.source(scope.depth - 1, around)
        inner = replace(inside, depth=0, around=())
        if self.one_in(4):
            return f"(SELECT {self.value(kind, inner, 1)} AS y {source} ORDER BY y LIMIT 1)"
        calls = (Column("count(*)", INT), *(self.call(inner) for _ in range(2)))
        value = self.value(kind, Scope(calls), 1)
        having = "" if any(c.sql in value for c in calls) else " HAVING count(*) >= 0"
        limit = self.pick(" LIMIT 1 OFFSET 1", " LIMIT 0") if self.one_in(12) else ""
        return f"(SELECT {value} {source}{having}{limit})"


def _wide(*columns: str) -> str:
    """Start and step of a recursion need the same types."""
    return ", ".join(f"CAST({c} AS BIGINT)" for c in columns)


def _is_name(sql: str) -> bool:
    return sql.replace(".", "_").isidentifier()


def write_query(chance: Random, deepest: int = 3) -> str:
    depth = chance.choice((1, 0, 1, 1, 2, 2, 2, 3))
    return Author(chance).whole(min(depth, deepest)).sql


@st.composite
def queries(draw: st.DrawFn, deepest: int = 3) -> str:
    return write_query(draw(st.randoms(use_true_random=False)), deepest)
