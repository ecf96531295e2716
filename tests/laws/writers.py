"""Random statements of several writers, and what each does to tables kept in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

Row = tuple[int, str, int]  # id, region, n
State = dict[str, list[Row]]

KEYED, BAG = "keyed", "bag"
COLUMNS = "id INT, region STRING, n INT"
TABLES = (f"CREATE TABLE {KEYED} ({COLUMNS}, PRIMARY KEY (id))", f"CREATE TABLE {BAG} ({COLUMNS})")
STREAMS = {
    f"{table}_by_region": f"SELECT region, count(*) AS c, sum(n) AS s, max(n) AS m FROM {table} GROUP BY region"
    for table in (KEYED, BAG)
}
FIRST: State = {
    KEYED: [(n, "eu" if n % 2 else "us", 10 * n) for n in range(1, 7)],
    BAG: [(1, "eu", 10), (1, "eu", 10), (2, "us", 20), (3, "eu", 30)],
}


class DuplicateKey(Exception):
    pass


@dataclass(frozen=True)
class Statement:
    """`run` changes the target and answers what the user is told; `ids` are all the keys it can concern."""

    sql: str
    target: str
    run: Callable[[State], Any]
    ids: frozenset[int] | None = None
    source: str | None = None  # a table that it only reads


def copied(state: State) -> State:
    return {name: list(rows) for name, rows in state.items()}


def difference(new: list[Row], old: list[Row]) -> Counter[Row]:
    found = Counter(new)
    found.subtract(Counter(old))
    return Counter({row: n for row, n in found.items() if n})


def _store(state: State, table: str, rows: list[Row]) -> None:
    if table == KEYED and len({r[0] for r in rows}) < len(rows):
        raise DuplicateKey
    state[table] = rows


# --- statements ------------------------------------------------------------------------------------


def insert(random: Random, table: str) -> Statement:
    row = (random.randint(1, 9), random.choice(["eu", "us"]), random.randint(0, 40))

    def run(state: State) -> int:
        _store(state, table, [*state[table], row])
        return 1

    return Statement(
        f"INSERT INTO {table} VALUES ({row[0]}, '{row[1]}', {row[2]})", table, run, frozenset(row[:1])
    )


def _changing(
    sql: str,
    table: str,
    meets: Callable[[Row], bool],
    change: Callable[[Row], Row | None],
    ids: frozenset[int] | None,
) -> Statement:
    def run(state: State) -> int:
        changed = [change(r) if meets(r) else r for r in state[table]]
        hits = sum(map(meets, state[table]))
        _store(state, table, [r for r in changed if r is not None])
        return hits

    return Statement(sql, table, run, ids)


def update_by_id(random: Random, table: str) -> Statement:
    i, k = random.randint(1, 9), random.randint(0, 3)
    return _changing(
        f"UPDATE {table} SET n = n + {k} WHERE id = {i}",
        table,
        lambda r: r[0] == i,
        lambda r: (r[0], r[1], r[2] + k),
        frozenset([i]),
    )


def update_by_region(random: Random, table: str) -> Statement:
    region, c = random.choice(["eu", "us"]), random.randint(0, 60)
    return _changing(
        f"UPDATE {table} SET n = n + 1 WHERE region = '{region}' AND n < {c}",
        table,
        lambda r: r[1] == region and r[2] < c,
        lambda r: (r[0], r[1], r[2] + 1),
        None,
    )


def move_region(random: Random, table: str) -> Statement:
    region, c = random.choice(["eu", "us"]), random.randint(20, 60)
    return _changing(
        f"UPDATE {table} SET region = '{region}' WHERE n > {c}",
        table,
        lambda r: r[2] > c,
        lambda r: (r[0], region, r[2]),
        None,
    )


def change_key(random: Random, table: str) -> Statement:
    old, new = random.randint(1, 9), random.randint(1, 9)
    return _changing(
        f"UPDATE {table} SET id = {new} WHERE id = {old}",
        table,
        lambda r: r[0] == old,
        lambda r: (new, r[1], r[2]),
        frozenset([old, new]),
    )


def delete_by_id(random: Random, table: str) -> Statement:
    i = random.randint(1, 9)
    return _changing(
        f"DELETE FROM {table} WHERE id = {i}", table, lambda r: r[0] == i, lambda r: None, frozenset([i])
    )


def delete_by_region(random: Random, table: str) -> Statement:
    region, c = random.choice(["eu", "us"]), random.randint(0, 30)
    return _changing(
        f"DELETE FROM {table} WHERE region = '{region}' AND n < {c}",
        table,
        lambda r: r[1] == region and r[2] < c,
        lambda r: None,
        None,
    )


def raise_above_all(random: Random, table: str) -> Statement:
    i = random.randint(1, 9)
    sql = f"UPDATE {table} SET n = (SELECT coalesce(max(n), 0) FROM {table}) + 1 WHERE id = {i}"

    def run(state: State) -> int:
        top = max((r[2] for r in state[table]), default=0) + 1
        state[table] = [(r[0], r[1], top) if r[0] == i else r for r in state[table]]
        return sum(r[0] == i for r in state[table])

    return Statement(sql, table, run)


def upsert(random: Random, table: str) -> Statement:
    i, k = random.randint(1, 9), random.randint(0, 40)
    sql = (
        f"MERGE INTO {table} AS t USING VALUES ({i}, {k}) AS s (id, n) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, region, n) VALUES (s.id, 'eu', s.n)"
    )

    def run(state: State) -> int:
        found = sum(r[0] == i for r in state[table])
        rows = [(r[0], r[1], k) if r[0] == i else r for r in state[table]]
        state[table] = rows if found else [*rows, (i, "eu", k)]
        return found or 1

    return Statement(sql, table, run, frozenset([i]))


def copy_region(random: Random, table: str) -> Statement:
    """Into the bag, whichever table was asked for."""
    region = random.choice(["eu", "us"])
    sql = f"INSERT INTO {BAG} SELECT * FROM {KEYED} WHERE region = '{region}' AND n < 30"

    def run(state: State) -> int:
        rows = [r for r in state[KEYED] if r[1] == region and r[2] < 30]
        state[BAG] = state[BAG] + rows
        return len(rows)

    return Statement(sql, BAG, run, None, KEYED)


def ask_by_id(random: Random, table: str) -> Statement:
    """A question about the keyed table; what it was told must stay true if the table is changed too."""
    i = random.randint(1, 9)

    def run(state: State) -> int:
        return sum(r[2] for r in state[KEYED] if r[0] == i)

    return Statement(f"SELECT coalesce(sum(n), 0) FROM {KEYED} WHERE id = {i}", KEYED, run, frozenset([i]))


def ask_everything(random: Random, table: str) -> Statement:
    def run(state: State) -> int:
        return sum(r[2] for r in state[KEYED])

    return Statement(f"SELECT coalesce(sum(n), 0) FROM {KEYED}", KEYED, run)


BY_ID = (insert, update_by_id, change_key, delete_by_id, upsert, ask_by_id)
BY_ROWS = (update_by_region, move_region, delete_by_region, raise_above_all, copy_region, ask_everything)


def any_statement(random: Random) -> Statement:
    make = random.choice(BY_ID if random.random() < 0.7 else BY_ROWS)
    return make(random, random.choice([KEYED, KEYED, BAG]))


# --- transactions ----------------------------------------------------------------------------------


@dataclass
class Transaction:
    """What one writer did since it began: on its own snapshot, so that it can be done again on another."""

    base: State
    view: State = field(init=False)
    told: list[tuple[Statement, Any, list[Row]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.view = copied(self.base)

    def run(self, statement: Statement) -> Any:
        """What the user is told; "duplicate" if the statement fails."""
        seen = list(self.view[statement.source]) if statement.source else []
        answer = self._answer(statement, self.view)
        self.told.append((statement, answer, seen))
        return answer

    @staticmethod
    def _answer(statement: Statement, state: State) -> Any:
        try:
            return statement.run(state)
        except DuplicateKey:
            return "duplicate"

    def written(self) -> set[str]:
        return {t for t in self.view if difference(self.view[t], self.base[t])}

    def run_again(self, current: State) -> State:
        """The same statements on a newer state; whoever looks at a table that is written is told the same."""
        state, written = copied(current), self.written()
        for statement, answer, seen in self.told:
            if statement.target not in written:
                continue
            kept = state.get(statement.source or "")
            if statement.source is not None and statement.source not in written:
                state[statement.source] = seen
            assert self._answer(statement, state) == answer, statement.sql
            if statement.source is not None and kept is not None:
                state[statement.source] = kept
        return state

    def must_succeed(self, current: State) -> bool:
        """Whether only keys that it says nothing of were changed by others, in the tables that it changes."""
        for table in self.written():
            statements = [s for s, _, _ in self.told if table in (s.target, s.source)]
            if any(s.ids is None for s in statements) or any(a == "duplicate" for _, a, _ in self.told):
                return False
            mine = frozenset[int]().union(*(s.ids or () for s in statements))
            theirs = {row[0] for row in difference(current[table], self.base[table])}
            if mine & theirs or table == BAG:
                return False
        return True
