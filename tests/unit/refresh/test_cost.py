"""What was learned from earlier refreshes decides between a differential and a full one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from spark_trickle.model.experience import Experience, add_run
from spark_trickle.model.stream import Action, Mode, Run
from spark_trickle.refresh.cost import CostEstimate, estimate_cost, leads_to_many
from spark_trickle.refresh.decide import Facts, decide_refresh
from spark_trickle.refresh.recommend import recommend_mode
from spark_trickle.settings import Settings

D, F = Action.DIFFERENTIAL, Action.FULL


def given_up(rows: int) -> Run:
    """A full refresh that was begun as a differential one."""
    return Run(F, rows, 1_000_000, 1_500.0, given_up_ms=600.0)


def runs(*costs: tuple[Action, int, float]) -> tuple[Run, ...]:
    return tuple(Run(action, rows, 1_000_000, ms) for action, rows, ms in costs)


def known(past: Sequence[Run]) -> Experience:
    """From refreshes, newest first."""
    return reduce(add_run, reversed(past), Experience())


def facts(changed: int, past: Sequence[Run]) -> Facts:
    return Facts(Mode.AUTO, 1, 2, ("t",), changed, 1_000_000, known=known(past))


def differential(past: Sequence[Run], changed: int) -> CostEstimate:
    found = estimate_cost(known(past), changed, 1_000_000).differential
    assert found is not None
    return found


def full(past: Sequence[Run], source_rows: int) -> CostEstimate:
    found = estimate_cost(known(past), 10, source_rows).full
    assert found is not None
    return found


def test_nothing_is_known_before_either_way_was_taken() -> None:
    assert estimate_cost(known(runs((F, 0, 50.0))), 10, 1_000_000).better is None
    assert estimate_cost(known(runs(*[(D, 10, 5.0)] * 5)), 10, 1_000_000).better is None


def test_the_line_through_what_was_seen() -> None:
    past = runs((D, 1_000, 200.0), (D, 2_000, 300.0), (D, 3_000, 400.0), (F, 0, 900.0))
    found = differential(past, 10_000)
    assert (found.firm, round(found.ms)) == (True, 1_050)  # the middle of 2,000 and 3,000 rows, 300 ms
    assert not differential(past, 100_000).firm


def test_a_run_of_the_same_size_is_trusted_even_if_it_is_alone() -> None:
    """A line through the two small ones would say forty seconds."""
    past = runs((D, 20, 280.0), (D, 4_000, 484.0), (D, 2, 100.0), (F, 0, 600.0))
    assert differential(past, 4_000).ms == 484
    decision = decide_refresh(facts(4_000, past), Settings(differential_free_rows=0))
    assert decision.action is D
    assert decision.reason == (
        "rows changed in t: 4,000; expected: differential about 484 ms (4,000 rows took 484 ms),"
        " full about 600 ms (1,000,000 rows took 600 ms)"
    )


def test_small_runs_do_not_tell_what_a_large_one_costs() -> None:
    past = runs((D, 20, 280.0), (D, 2, 100.0), (F, 0, 600.0))
    found = differential(past, 4_000)
    assert (found.firm, found.low, found.high) == (False, 280, 280 * 200)
    assert estimate_cost(known(past), 4_000, 1_000_000).better is None
    decision = decide_refresh(facts(100_000, past), Settings())
    assert decision.revocable
    assert decision.reason.endswith("of 1,000,000 (10.0%), within the limit of 15%")


def test_what_a_smaller_change_takes_a_larger_one_takes_at_least() -> None:
    past = runs(*[(D, 20, 2_000.0)] * 2, (F, 0, 600.0))
    assert decide_refresh(facts(4_000_000, past), Settings()).action is F
    assert (
        "differential 2,000 to 400,000,000 ms (20 rows took"
        in decide_refresh(facts(4_000_000, past), Settings()).reason
    )


def test_the_largest_run_is_remembered_whatever_follows() -> None:
    past = (*runs(*[(D, 3, 50.0)] * 500), *runs((D, 80_000, 484.0), (F, 0, 600.0)))
    found = differential(past, 80_000)
    assert (found.ms, [r.delta_rows for r in found.runs]) == (484, [80_000])
    assert len(known(past).runs) == 7


def test_a_full_refresh_costs_in_proportion_to_the_rows() -> None:
    assert full(runs((F, 0, 900.0)), 2_000_000).ms == 1_800


def test_the_better_one_is_chosen_and_says_why() -> None:
    slow = runs(*[(D, 50_000, 9_000.0)] * 4, (F, 0, 900.0))
    decision = decide_refresh(facts(50_000, slow), Settings())
    assert decision.action is F
    assert decision.reason.endswith(
        "expected: differential about 9,000 ms (50,000 rows took 9,000 ms, 50,000 rows took 9,000 ms,"
        " 50,000 rows took 9,000 ms, 1 more), full about 900 ms (1,000,000 rows took 900 ms)"
    )
    fast = runs(*[(D, 200_000, 500.0)] * 3, (F, 0, 900.0))
    assert decide_refresh(facts(200_000, fast), Settings()).action is D  # the share alone would say FULL


def test_merging_files_is_shared_by_the_refreshes_that_made_them() -> None:
    merged = Run(D, 50_000, 1_000_000, 500.0, compact_ms=6_000.0)
    past = (merged, *runs((D, 50_000, 500.0), (D, 50_000, 500.0), (F, 0, 1_200.0)))
    assert differential(past, 50_000).ms == 2_500
    assert decide_refresh(facts(50_000, past), Settings()).action is F
    assert decide_refresh(facts(50_000, past[1:]), Settings()).action is D


def test_small_changes_stay_differential_unless_that_is_clearly_slower() -> None:
    noisy = runs(*[(D, 10, 190.0)] * 3, (F, 0, 100.0))
    assert decide_refresh(facts(10, noisy), Settings()).action is D
    awful = runs(*[(D, 10, 5_000.0)] * 3, (F, 0, 100.0))
    assert decide_refresh(facts(10, awful), Settings()).action is F


def test_it_is_tried_again_when_that_costs_little_beside_what_full_refreshes_cost() -> None:
    for changed in (10, 600_000):  # the share alone would say FULL
        old = runs(*[(F, changed, 1_000.0)] * 20, *[(D, changed, 3_000.0)] * 3)
        decision = decide_refresh(facts(changed, old), Settings())
        assert decision.action is D
        assert decision.revocable
        assert decision.reason.endswith("; trying a differential refresh again after 20 full ones")
        assert decide_refresh(facts(changed, old[1:]), Settings()).action is F


def test_changes_of_another_size_do_not_count_as_a_trial() -> None:
    """Small ones are refreshed differentially all the time; that tells nothing of the large ones."""
    past = [*runs((D, 4_000, 3_000.0), (D, 4_000, 3_000.0), (F, 0, 1_000.0))]
    for _ in range(20):
        past = [*runs((F, 4_000, 1_000.0), (D, 20, 50.0)), *past]
    assert decide_refresh(facts(4_000, past), Settings()).action is D
    assert decide_refresh(facts(4_000, past[2:]), Settings()).action is F


def test_a_full_refresh_is_tried_if_the_only_one_may_have_been_slow_by_chance() -> None:
    cold = runs(*[(D, 10, 2_000.0)] * 20, (F, 0, 6_000.0))
    decision = decide_refresh(facts(10, cold), Settings())
    assert decision.action is F
    assert decision.reason.endswith("; trying a full refresh again after 20 differential ones")
    assert decide_refresh(facts(10, cold[1:]), Settings()).action is D  # it may cost a tenth
    firm = runs(*[(D, 10, 2_000.0)] * 20, *[(F, 0, 6_000.0)] * 3)
    assert decide_refresh(facts(10, firm), Settings()).action is D
    quick = runs(*[(D, 10, 50.0)] * 2_000, (F, 0, 6_000.0))
    assert decide_refresh(facts(10, quick), Settings()).action is D


def test_a_table_of_another_size_by_far_tells_nothing_of_this_one() -> None:
    """Created over few rows, then loaded: a full refresh of a million rows is no million times as long."""
    small = (*runs(*[(D, 2_000_000, 60_000.0)] * 3), Run(F, 0, 1, 400.0))
    assert estimate_cost(known(small), 2_000_000, 1_000_000).full is None
    assert decide_refresh(facts(2_000_000, small), Settings()).action is F
    empty = (*runs(*[(D, 10, 500.0)] * 3), Run(F, 0, 0, 50.0))
    assert decide_refresh(facts(10, empty), Settings()).action is D
    assert full((Run(F, 0, 0, 50.0),), 0).ms == 50


def test_a_first_refresh_that_was_slow_does_not_speak_against_the_next_ones() -> None:
    """It read what the others find in memory; a line through three alike would say anything."""
    past = runs((D, 2_780, 500.0), (D, 2_888, 900.0), (D, 2_900, 6_000.0), (F, 0, 2_900.0))
    assert decide_refresh(facts(2_950, past), Settings()).action is D


def test_changes_of_the_same_size_tell_more_than_a_line() -> None:
    """Many rows take another way than few, and cost more for each."""
    past = runs(*[(D, 500_000, 3_000.0)] * 3, *[(D, 10_000, 50.0)] * 9, *[(F, 0, 1_500.0)] * 3)
    assert differential(past, 600_000).ms == 3_000
    assert decide_refresh(facts(600_000, past), Settings()).action is F


def test_the_latest_full_refreshes_count() -> None:
    past = runs(*[(D, 500_000, 3_000.0)] * 3, *[(F, 0, 1_500.0)] * 5, *[(F, 0, 6_000.0)] * 9)
    assert decide_refresh(facts(500_000, past), Settings()).action is F


def test_two_awful_refreshes_are_enough() -> None:
    awful = runs((D, 100, 45_000.0), (D, 100, 60_000.0), (F, 0, 5_000.0))
    assert decide_refresh(facts(100, awful), Settings()).action is F
    assert decide_refresh(facts(100, awful[1:]), Settings()).action is D  # one may be the first of a process


def test_a_differential_refresh_may_be_given_up_while_nothing_is_known_of_what_it_takes() -> None:
    past = runs(*[(D, 10, 50.0)] * 3, (F, 0, 900.0))
    assert decide_refresh(facts(10, ()), Settings()).revocable
    assert decide_refresh(facts(100_000, ()), Settings()).revocable
    assert not decide_refresh(facts(10, past), Settings()).revocable
    assert decide_refresh(facts(50_000, past), Settings()).revocable  # so many were never seen
    asked = Facts(Mode.DIFFERENTIAL, 1, 2, ("t",), 10, 1_000_000)
    assert not decide_refresh(asked, Settings()).revocable


def test_what_was_given_up_is_remembered_for_such_changes_and_for_a_while() -> None:
    for changed, action in ((1_000, F), (500, F), (499, D), (100_000, F)):
        assert decide_refresh(facts(changed, (given_up(1_000),)), Settings()).action is action, changed
    later = (*runs(*[(F, 1_000, 900.0)] * 5), given_up(1_000), *runs((F, 0, 900.0)))
    decision = decide_refresh(facts(1_000, later), Settings())
    assert decision.action is F
    assert decision.reason.endswith("; the last such change was as much work as computing everything")
    assert decide_refresh(facts(1_000, (*runs((F, 1_000, 900.0)), *later)), Settings()).action is D
    since = (*runs((D, 1_000, 50.0)), *later)
    assert decide_refresh(facts(1_000, since), Settings()).action is D


def test_what_was_given_up_is_no_part_of_what_a_full_refresh_takes() -> None:
    assert full((*runs(*[(D, 600_000, 1_200.0)] * 3), given_up(600_000)), 1_000_000).ms == 900


def test_a_change_leads_to_as_many_rows_as_the_last_one() -> None:
    many, few = (Run(D, 100, 1_000_000, 900.0, result_rows=n) for n in (5_000, 10))
    in_full = Run(F, 100, 1_000_000, 900.0, result_rows=9_000)
    assert leads_to_many(known((many, few)), 100, 4_999)
    assert leads_to_many(known((in_full, many)), 50, 4_999)
    assert not leads_to_many(known((many,)), 100, 5_000)
    assert not leads_to_many(known((many,)), 49, 4_999)  # of a much smaller one it tells nothing
    assert not leads_to_many(known((few, many)), 100, 4_999)
    assert not leads_to_many(known((in_full,)), 100, 4_999)
    assert not leads_to_many(Experience(), 100, 0)


def test_a_mode_is_recommended_with_the_runs_that_speak_for_it() -> None:
    dear = known(runs(*[(D, 4_000, 3_000.0)] * 3, *[(F, 4_000, 900.0)] * 3))
    advice = recommend_mode(dear, [4_000, 4_000, 2], 1_000_000)
    assert (advice.mode, advice.confidence) == (Mode.FULL, "high")
    assert advice.reason.startswith(
        "for 4,000 changed rows, expected: differential about 3,000 ms (4,000 rows took 3,000 ms,"
    )
    cheap = known(runs((D, 20, 280.0), (D, 4_000, 484.0), (D, 2, 100.0), (F, 0, 600.0)))
    advice = recommend_mode(cheap, [20, 4_000, 4_000], 1_000_000)
    assert (advice.mode, advice.confidence) == (Mode.AUTO, "medium")
    assert "differential about 484 ms (4,000 rows took 484 ms)" in advice.reason
    assert recommend_mode(cheap, [400_000], 1_000_000).confidence == "low"
    assert recommend_mode(cheap, [], 1_000_000).mode is Mode.AUTO
    assert recommend_mode(dear, [2], 1_000_000, ("now",)).mode is Mode.FULL
