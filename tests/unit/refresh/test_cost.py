"""What was learned from earlier refreshes decides between a differential and a full one."""

from __future__ import annotations

from spark_trickle.model.stream import Action, Mode, Run
from spark_trickle.refresh.cost import estimate, leads_to_many
from spark_trickle.refresh.decide import Facts, decide
from spark_trickle.settings import Settings

D, F = Action.DIFFERENTIAL, Action.FULL


def given_up(rows: int) -> Run:
    """A full refresh that was begun as a differential one."""
    return Run(F, rows, 1_000_000, 1_500.0, given_up_ms=600.0)


def runs(*costs: tuple[Action, int, float]) -> tuple[Run, ...]:
    return tuple(Run(action, rows, 1_000_000, ms) for action, rows, ms in costs)


def facts(changed: int, known: tuple[Run, ...]) -> Facts:
    return Facts(Mode.AUTO, 1, 2, ("t",), changed, 1_000_000, runs=known)


def test_nothing_is_learned_from_few_runs() -> None:
    assert estimate(runs((D, 10, 5.0), (F, 0, 50.0)), 10, 1_000_000) is None
    assert estimate(runs(*[(D, 10, 5.0)] * 5), 10, 1_000_000) is None


def test_the_line_through_what_was_seen() -> None:
    found = estimate(
        runs((D, 1_000, 200.0), (D, 2_000, 300.0), (D, 3_000, 400.0), (F, 0, 900.0)), 10_000, 1_000_000
    )
    assert found is not None
    assert round(found.differential) == 1_100
    assert found.full == 900


def test_a_full_refresh_costs_in_proportion_to_the_rows() -> None:
    found = estimate(runs(*[(D, 10, 5.0)] * 3, (F, 0, 900.0)), 10, 2_000_000)
    assert found is not None
    assert found.full == 1_800


def test_the_better_one_is_chosen_and_says_why() -> None:
    slow = runs(*[(D, 50_000, 9_000.0)] * 3, (F, 0, 900.0))
    decision = decide(facts(50_000, slow), Settings())
    assert decision.action is F
    assert "learned from 4 refreshes: differential 9000 ms, full 900 ms" in decision.reason
    fast = runs(*[(D, 200_000, 500.0)] * 3, (F, 0, 900.0))
    assert decide(facts(200_000, fast), Settings()).action is D  # the share alone would say FULL


def test_merging_files_is_shared_by_the_refreshes_that_made_them() -> None:
    merged = Run(D, 50_000, 1_000_000, 500.0, compact_ms=6_000.0)
    known = (merged, *runs((D, 50_000, 500.0), (D, 50_000, 500.0), (F, 0, 1_200.0)))
    found = estimate(known, 50_000, 1_000_000)
    assert found is not None
    assert found.differential == 2_500
    assert decide(facts(50_000, known), Settings()).action is F
    assert decide(facts(50_000, known[1:]), Settings()).action is D


def test_small_changes_stay_differential_unless_that_is_clearly_slower() -> None:
    noisy = runs(*[(D, 10, 190.0)] * 3, (F, 0, 100.0))
    assert decide(facts(10, noisy), Settings()).action is D
    awful = runs(*[(D, 10, 5_000.0)] * 3, (F, 0, 100.0))
    assert decide(facts(10, awful), Settings()).action is F


def test_it_is_tried_again_when_that_costs_little_beside_what_full_refreshes_cost() -> None:
    for changed in (10, 600_000):  # the share alone would say FULL
        old = runs(*[(F, 0, 1_000.0)] * 20, *[(D, changed, 3_000.0)] * 3)
        decision = decide(facts(changed, old), Settings())
        assert decision.action is D
        assert decision.reason.endswith("; long ago, so it is tried again")
        assert decide(facts(changed, old[1:]), Settings()).action is F


def test_a_table_of_another_size_by_far_tells_nothing_of_this_one() -> None:
    """Created over few rows, then loaded: a full refresh of a million rows is no million times as long."""
    small = (*runs(*[(D, 2_000_000, 60_000.0)] * 3), Run(F, 0, 1, 400.0))
    assert estimate(small, 2_000_000, 1_000_000) is None
    assert decide(facts(2_000_000, small), Settings()).action is F
    empty = (*runs(*[(D, 10, 500.0)] * 3), Run(F, 0, 0, 50.0))
    assert decide(facts(10, empty), Settings()).action is D
    assert estimate((*runs((D, 1, 5.0), (D, 1, 5.0)), Run(F, 0, 0, 50.0)), 1, 0) is not None


def test_a_first_refresh_that_was_slow_does_not_speak_against_the_next_ones() -> None:
    """It read what the others find in memory; a line through three alike would say anything."""
    known = runs((D, 2_780, 500.0), (D, 2_888, 900.0), (D, 2_900, 6_000.0), (F, 0, 2_900.0))
    assert decide(facts(2_950, known), Settings()).action is D


def test_changes_of_the_same_size_tell_more_than_a_line() -> None:
    """Many rows take another way than few, and cost more for each."""
    known = runs(*[(D, 500_000, 3_000.0)] * 3, *[(D, 10_000, 50.0)] * 9, *[(F, 0, 1_500.0)] * 3)
    found = estimate(known, 600_000, 1_000_000)
    assert found is not None
    assert found.differential == 3_000
    assert decide(facts(600_000, known), Settings()).action is F


def test_the_latest_full_refreshes_count() -> None:
    known = runs(*[(D, 500_000, 3_000.0)] * 3, *[(F, 0, 1_500.0)] * 5, *[(F, 0, 6_000.0)] * 9)
    assert decide(facts(500_000, known), Settings()).action is F


def test_two_awful_refreshes_are_enough() -> None:
    awful = runs((D, 100, 45_000.0), (D, 100, 60_000.0), (F, 0, 5_000.0))
    assert decide(facts(100, awful), Settings()).action is F
    assert decide(facts(100, awful[1:]), Settings()).action is D  # one may be the first of a process


def test_a_differential_refresh_may_be_given_up_while_nothing_is_known_of_what_it_takes() -> None:
    known = runs(*[(D, 10, 50.0)] * 3, (F, 0, 900.0))
    assert decide(facts(10, ()), Settings()).revocable
    assert decide(facts(100_000, ()), Settings()).revocable
    assert not decide(facts(10, known), Settings()).revocable
    assert not decide(facts(50_000, known), Settings()).revocable
    asked = Facts(Mode.DIFFERENTIAL, 1, 2, ("t",), 10, 1_000_000)
    assert not decide(asked, Settings()).revocable


def test_what_was_given_up_is_remembered_for_such_changes_and_for_a_while() -> None:
    for changed, action in ((1_000, F), (500, F), (499, D), (100_000, F)):
        assert decide(facts(changed, (given_up(1_000),)), Settings()).action is action, changed
    later = (*runs(*[(F, 1_000, 900.0)] * 5), given_up(1_000), *runs((F, 0, 900.0)))
    decision = decide(facts(1_000, later), Settings())
    assert decision.action is F
    assert decision.reason.endswith("; such a change was as much work as everything")
    assert decide(facts(1_000, (*runs((F, 1_000, 900.0)), *later)), Settings()).action is D
    since = (*runs((D, 1_000, 50.0)), *later)
    assert decide(facts(1_000, since), Settings()).action is D


def test_what_was_given_up_is_no_part_of_what_a_full_refresh_takes() -> None:
    known = (*runs(*[(D, 600_000, 1_200.0)] * 3), given_up(600_000))
    found = estimate(known, 600_000, 1_000_000)
    assert found is not None
    assert found.full == 900


def test_a_change_leads_to_as_many_rows_as_the_last_one() -> None:
    many, few = (Run(D, 100, 1_000_000, 900.0, result_rows=n) for n in (5_000, 10))
    in_full = Run(F, 100, 1_000_000, 900.0, result_rows=9_000)
    assert leads_to_many((many, few), 100, 4_999)
    assert leads_to_many((in_full, many), 50, 4_999)
    assert not leads_to_many((many,), 100, 5_000)
    assert not leads_to_many((many,), 49, 4_999)  # of a much smaller one it tells nothing
    assert not leads_to_many((few, many), 100, 4_999)
    assert not leads_to_many((in_full,), 100, 4_999)
    assert not leads_to_many((), 100, 0)
