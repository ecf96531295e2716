"""Whatever several writers do at once, what is committed is what each would do alone, one after the other.

A model in plain Python runs the statements of every transaction that was committed once more, on the state
in which it was committed: the tables must be the same, and so must every answer it was given about a table
that it changed. A transaction that concerns only keys which nobody else changed is never refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from spark_trickle import connect
from spark_trickle.errors import ConflictError, DuplicateKeyError
from spark_trickle.session import Trickle
from tests.crash.witness import feed_sum
from tests.laws.writers import (
    FIRST,
    STREAMS,
    TABLES,
    State,
    Statement,
    Transaction,
    any_statement,
    copied,
    difference,
)

WRITERS = 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("interpreted")
def test_writers(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, Random(seed), rounds=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("interpreted")
def test_many_writers(tmp_path: Path) -> None:
    refused, accepted = run_history(tmp_path, Random(77), rounds=60)
    assert 0 < refused < accepted


def run_history(folder: Path, random: Random, rounds: int) -> tuple[int, int]:
    """How many transactions were refused, and how many accepted beside others."""
    trs = [connect(folder / "warehouse", settings={"compact_change_files": 6}) for _ in range(WRITERS)]
    try:
        state = fill(trs[0])
        begun = trs[0].snapshot
        outcomes: Counter[bool] = Counter()
        for _ in range(rounds):
            state = run_round(trs, state, random, outcomes)
        check_streams(trs[0])
        for name, rows in state.items():
            assert feed_sum(trs[1], name, begun, trs[1].snapshot) == dict(
                sorted(difference(rows, FIRST[name]).items(), key=repr)
            )
            trs[2].sql(f"OPTIMIZE {name}")
            assert content(trs[0], name) == sorted(rows)
        return outcomes[False], outcomes[True]
    finally:
        for tr in trs:
            tr.close()


def fill(tr: Trickle) -> State:
    for statement in TABLES:
        tr.sql(statement)
    for name, rows in FIRST.items():
        tr.sql(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}")
    for name, query in STREAMS.items():
        tr.sql(f"CREATE STREAM TABLE {name} AS {query}")
    return copied(FIRST)


def run_round(trs: list[Trickle], state: State, random: Random, outcomes: Counter[bool]) -> State:
    """Every writer has one transaction; their steps are shuffled."""
    steps = [n for n in range(WRITERS) for _ in range(random.randint(1, 2) + 2)]
    random.shuffle(steps)
    open_ones: dict[int, Transaction] = {}
    for at, n in enumerate(steps):
        if n not in open_ones:
            trs[n].sql("BEGIN")
            open_ones[n] = Transaction(copied(state))
        elif n in steps[at + 1 :]:
            run_both(trs[n], open_ones[n], any_statement(random))
        else:
            state = commit_both(trs[n], open_ones[n], state, outcomes)
    return state


def run_both(tr: Trickle, model: Transaction, statement: Statement) -> None:
    expected = model.run(statement)
    try:
        row = tr.sql(statement.sql).collect()[0]
        found = row[0] if statement.sql.startswith("SELECT") else sum(row[:3])
    except DuplicateKeyError:
        found = "duplicate"
    assert found == expected, statement.sql


def commit_both(tr: Trickle, model: Transaction, state: State, outcomes: Counter[bool]) -> State:
    said = [s.sql for s, _, _ in model.told]
    try:
        tr.sql("COMMIT")
    except ConflictError:
        assert not model.must_succeed(state), said
        outcomes[False] += 1
        return state
    outcomes[True] += any(difference(state[t], model.base[t]) for t in model.written())
    state = model.run_again(state)
    for name, rows in state.items():
        assert content(tr, name) == sorted(rows), said
    return state


def content(tr: Trickle, name: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, tr.table(name).collect()))


def check_streams(tr: Trickle) -> None:
    tr.refresh_all()
    for name in STREAMS:
        assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == []
