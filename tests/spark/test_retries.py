"""What ends in a conflict is tried again: as often as allowed, counted, and each time on the newest snapshot."""

from __future__ import annotations

import pytest

from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import ConflictError, QueryError
from spark_trickle.session import Trickle
from spark_trickle.txn.retry import RetryPolicy, retry_on_conflict, retry_work
from spark_trickle.txn.work import Work

CONFLICT = ConflictError("main.t", 1, 2, "changed")

# conflicts in a row, retries that are allowed, attempts that are made, whether one of them succeeds
CASES = [
    (0, 0, 1, True),
    (1, 0, 1, False),
    (1, 1, 2, True),
    (3, 3, 4, True),
    (4, 3, 4, False),
]


@pytest.mark.parametrize(("conflicts", "retries", "attempts", "succeeds"), CASES)
def test_how_often(tr_sqlite: Trickle, conflicts: int, retries: int, attempts: int, succeeds: bool) -> None:
    place, made = tr_sqlite._connection.place, []
    before = place.warehouse.tally.totals()["commit_retries"]

    def attempt() -> str:
        made.append(len(made))
        if len(made) <= conflicts:
            raise CONFLICT
        return "done"

    if succeeds:
        assert retry_on_conflict(place, attempt, RetryPolicy(retries)) == "done"
    else:
        with pytest.raises(ConflictError):
            retry_on_conflict(place, attempt, RetryPolicy(retries))
    assert len(made) == attempts
    assert place.warehouse.tally.totals()["commit_retries"] - before == attempts - 1


def test_other_errors_are_raised_at_once(tr_sqlite: Trickle) -> None:
    def attempt() -> None:
        raise QueryError("no", "")

    before = tr_sqlite._connection.place.warehouse.tally.totals()
    with pytest.raises(QueryError):
        retry_on_conflict(tr_sqlite._connection.place, attempt)
    assert tr_sqlite._connection.place.warehouse.tally.totals() == before


def test_each_attempt_sees_what_was_committed_before_it(tr_sqlite: Trickle) -> None:
    snapshots: list[int] = []

    def attempt(work: Work) -> int:
        snapshots.append(work.base.id)
        if len(snapshots) < 4:
            tr_sqlite.sql(f"CREATE TABLE t{len(snapshots)} (id INT)")
            raise CONFLICT
        return work.base.id

    place, first = tr_sqlite._connection.place, tr_sqlite._connection.begin_work()
    assert retry_work(place, attempt, first=first) == tr_sqlite.snapshot
    assert snapshots == [first.base.id + n for n in range(4)]


def test_a_work_that_loses_twice_waits_for_its_turn(tr_sqlite: Trickle) -> None:
    """Its ticket is good for the tables that it changes; the policy says whether it queues at all."""
    tr_sqlite.sql("CREATE TABLE t (id INT)")
    tr_sqlite.sql("INSERT INTO t VALUES (1)")

    def tickets(policy: RetryPolicy) -> list[bool]:
        held: list[bool] = []

        def attempt(work: Work) -> None:
            held.append(work.ticket is not None)
            truncate_table(work, work.find_target(("t",)))
            if len(held) < 4:
                raise CONFLICT

        retry_work(tr_sqlite._connection.place, attempt, policy)
        return held

    assert tickets(RetryPolicy(5, queues=True)) == [False, False, True, True]
    assert tickets(RetryPolicy(5)) == [False] * 4
