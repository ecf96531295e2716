"""What takes long to make is made once; what was used last stays, and nobody waits for what others ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from spark_trickle.model.cache import Cache


def test_only_who_asks_for_the_same_waits() -> None:
    cache, begun, go_on = Cache[str, str](4), Event(), Event()

    def slowly() -> str:
        begun.set()
        assert go_on.wait(60)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", slowly)
        assert begun.wait(60)
        second = pool.submit(cache.get, "a", lambda: "made twice")
        assert cache.get("b", lambda: "quick") == "quick"
        assert cache.find("a") is None
        go_on.set()
        assert (first.result(60), second.result(60)) == ("slow", "slow")


def test_without_a_budget_nothing_is_kept_and_who_asks_at_the_same_time_shares() -> None:
    cache, begun, go_on = Cache[str, str](0), Event(), Event()

    def slowly() -> str:
        begun.set()
        assert go_on.wait(60)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", slowly)
        assert begun.wait(60)
        second = pool.submit(cache.get, "a", slowly)
        go_on.set()
        assert first.result(60) == second.result(60) == "slow"
    assert (cache.list_keys(), cache.weight) == ([], 0)


def test_the_last_ones_are_kept() -> None:
    cache, made = Cache[int, int](2), list[int]()

    def get(key: int) -> int:
        return cache.get(key, lambda: made.append(key) or key)  # type: ignore[func-returns-value]

    assert [get(key) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]


def test_what_failed_is_tried_again() -> None:
    cache = Cache[int, int](2)
    with pytest.raises(ZeroDivisionError):
        cache.get(1, lambda: 1 // 0)
    assert cache.list_keys() == []
    assert cache.get(1, lambda: 5) == 5


def test_weights_stay_within_the_budget_and_who_is_dropped_is_told() -> None:
    dropped: list[tuple[str, str]] = []
    cache = Cache[str, str](10, weigh=len, on_drop=lambda key, value: dropped.append((key, value)))
    cache.put("a", "1234")
    cache.put("b", "123456")
    assert (cache.weight, cache.list_keys(), dropped) == (10, ["a", "b"], [])
    assert cache.find("a") == "1234"
    cache.put("c", "1")
    assert (cache.weight, cache.list_keys(), dropped) == (5, ["a", "c"], [("b", "123456")])
    cache.put("a", "12")
    assert (cache.weight, cache.list_keys(), dropped[1:]) == (3, ["c", "a"], [("a", "1234")])
    cache.put("d", "longer than all there is room for")
    assert (cache.weight, cache.list_keys()) == (0, [])
    cache.put("e", "12345")
    cache.resize(4)
    assert (cache.weight, cache.list_keys(), dropped[-1]) == (0, [], ("e", "12345"))


def test_what_is_dropped_by_hand_is_told_too() -> None:
    dropped: list[str] = []
    cache = Cache[str, str](10, on_drop=lambda key, _: dropped.append(key))
    for key in ("a", "b", "c"):
        cache.get(key, lambda: "made")
    cache.drop("b", "missing")
    assert (cache.list_keys(), cache.weight, dropped) == (["a", "c"], 2, ["b"])
    cache.clear()
    assert (cache.list_keys(), cache.weight, dropped) == ([], 0, ["b", "a", "c"])


def test_what_was_dropped_while_it_was_made_is_answered_and_told_and_not_kept() -> None:
    dropped: list[tuple[str, str]] = []
    cache = Cache[str, str](10, on_drop=lambda key, value: dropped.append((key, value)))

    def make() -> str:
        cache.drop("a")
        assert dropped == []  # there is nothing yet
        return "made"

    assert cache.get("a", make) == "made"
    assert (cache.list_keys(), cache.weight, dropped) == ([], 0, [("a", "made")])


def test_what_was_replaced_while_it_was_made_is_told_once() -> None:
    dropped: list[str] = []
    cache = Cache[str, str](10, weigh=len, on_drop=lambda _, value: dropped.append(value))

    def make() -> str:
        cache.put("a", "newer")
        return "older"

    assert cache.get("a", make) == "older"
    assert (cache.find("a"), cache.weight, dropped) == ("newer", 5, ["older"])
