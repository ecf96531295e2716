"""What takes long to make is made once, and keeps nobody waiting who asks for something else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from spark_trickle.txn.latest import Latest


def test_only_who_asks_for_the_same_waits() -> None:
    latest, begun, go_on = Latest[str](4), Event(), Event()

    def slowly() -> str:
        begun.set()
        assert go_on.wait(60)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(latest.get, ("a",), slowly)
        assert begun.wait(60)
        second = pool.submit(latest.get, ("a",), lambda: "made twice")
        assert latest.get(("b",), lambda: "quick") == "quick"
        go_on.set()
        assert (first.result(60), second.result(60)) == ("slow", "slow")


def test_the_last_ones_are_kept() -> None:
    latest, made = Latest[int](2), list[int]()

    def get(key: int) -> int:
        return latest.get((key,), lambda: made.append(key) or key)  # type: ignore[func-returns-value]

    assert [get(key) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]


def test_what_failed_is_tried_again() -> None:
    latest = Latest[int](2)
    with pytest.raises(ZeroDivisionError):
        latest.get((1,), lambda: 1 // 0)
    assert latest.get((1,), lambda: 5) == 5
