"""AUTO in worlds of all kinds: it loses little against the better way, and believes nothing for ever."""

from __future__ import annotations

import json
from functools import reduce
from math import ceil, log10
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_trickle.model.experience import (
    Experience,
    add_run,
    charge_compaction,
    classify_size,
    read_experience,
    write_experience,
)
from spark_trickle.model.stream import Action, Run
from spark_trickle.refresh.cost import estimate_cost
from tests.unit.refresh.simulator import COLD, SETTINGS, D, F, Past, Simulator, World

LENGTH = 200
ROOT = Path(__file__).parents[3]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A change of all rows may cost ten times as much as a full refresh, and a step as much again."""
    full = 10 ** draw(st.floats(2.5, 5))
    rows = int(10 ** draw(st.floats(5, 7)))
    return World(
        fixed=full * 10 ** draw(st.floats(-3, 0.7)),
        per_row=full / rows * 10 ** draw(st.floats(-2, 1)),
        full=full,
        source_rows=rows,
        step_at=int(10 ** draw(st.floats(1, 6))),
        step=draw(st.sampled_from([0.0, 0.01, 0.1, 1.0, 10.0])) * full,
        noise=draw(st.floats(0, 0.3)),
        outliers=draw(st.sampled_from([0.0, 0.05])),
    )


def histories(chance: Random, rows: int) -> dict[str, list[int]]:
    """Sizes of changes, by what is special about them."""
    return {
        "tiny and huge": [chance.choice([2, 10, int(rows * 0.3)]) for _ in range(LENGTH)],
        "quiet, then busy": [3] * (LENGTH // 2) + [int(rows * 0.02)] * (LENGTH // 2),
        "all alike": [int(10 ** chance.uniform(0, log10(rows)))] * LENGTH,
        "2, 4,000, 20 and 4,000": [2, 4_000, 20, 4_000] * (LENGTH // 4),
        "of all sizes": [int(10 ** chance.uniform(0, log10(rows))) for _ in range(LENGTH)],
    }


def allowance(world: World, past: list[Past]) -> float:
    """A quarter, what is called noise, and for every size of change to find out how dear the dearer way is."""
    dearest: dict[int, float] = {}
    for p in past:
        size = classify_size(p.rows)
        dearest[size] = max(dearest.get(size, 0.0), world.full, world.differential(p.rows))
    return sum(0.25 * p.better + 100 for p in past) + 15 * sum(dearest.values())


@settings(max_examples=20, derandomize=True)
@given(worlds(), st.integers(0, 2**32))
def test_regret_is_bounded(world: World, seed: int) -> None:
    for kind, sizes in histories(Random(seed), world.source_rows).items():
        past = Simulator(world, Random(seed), cold=True).play(sizes)
        assert sum(p.regret for p in past) <= allowance(world, past), kind


def test_after_2_and_4000_and_20_rows_the_next_4000_are_differential() -> None:
    simulator = Simulator(World(fixed=90.0, per_row=0.1, full=600.0), Random(1), cold=True)
    simulator.known = reduce(
        add_run,
        [Run(D, 2, 10**6, 120.0), Run(D, 4_000, 10**6, 484.0), Run(D, 20, 10**6, 290.0)],
        simulator.known,
    )
    past = simulator.play([4_000, 20, 2, 4_000] * 30)
    assert past[0].decision.action is D
    in_full = [p.decision.reason for p in past if p.decision.action is F]
    assert len(in_full) <= 6
    assert all("trying a full refresh again" in reason for reason in in_full)


changed_costs = st.floats(1.2, 6.0)


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 10**6), changed_costs, changed_costs, st.lists(st.integers(1, 10**6), max_size=3))
@example(4_000, 2.0, 6.0, [20])
def test_what_became_cheap_is_found_out(rows: int, before: float, after: float, others: list[int]) -> None:
    """After ten refreshes, or as many more as a trial would have cost too much before."""
    simulator = Simulator(World(fixed=2_000 * before, per_row=0.0, full=2_000.0), Random(7), cold=True)
    simulator.play([rows, *others] * 40)
    simulator.becomes(fixed=2_000 / after)
    within = 10 + ceil(10 * (before - 1)) + 1
    past = simulator.play([rows] * (within + 20))
    assert sum(p.decision.action is F for p in past[within:]) <= 1  # a trial


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 10**6), changed_costs, changed_costs)
def test_what_became_dear_is_found_out(rows: int, before: float, after: float) -> None:
    simulator = Simulator(World(fixed=2_000 / before, per_row=0.0, full=2_000.0), Random(7))
    simulator.play([rows] * 40)
    simulator.becomes(fixed=2_000 * after)
    past = simulator.play([rows] * 60)
    assert sum(p.decision.action is D for p in past[5:]) <= 6  # trials


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 10**6), st.floats(1.2, COLD))
def test_a_slow_first_full_refresh_is_not_believed_for_ever(rows: int, dearer: float) -> None:
    """The one at creation was cold, and made differential refreshes look good that are not."""
    simulator = Simulator(World(fixed=2_000 * dearer, per_row=0.0, full=2_000.0), Random(7), cold=True)
    past = simulator.play([rows] * 150)
    assert sum(p.decision.action is D for p in past[60:]) <= 9


def test_a_table_that_was_created_over_nothing_learns_what_a_full_refresh_takes() -> None:
    """The one at creation read no rows; what loading them took says enough to try."""
    simulator = Simulator(World(fixed=5_000.0, per_row=0.01, full=50.0, source_rows=0), Random(7))
    simulator.becomes(source_rows=1_000_000, full=3_000.0)
    simulator.known = add_run(simulator.known, Run(D, 1_000_000, 1_000_000, 15_000.0))
    past = simulator.play([100] * 120)
    assert sum(p.decision.action is D for p in past[40:]) <= 8


def test_a_full_refresh_is_never_tried_where_it_cannot_pay() -> None:
    """A minute instead of a twentieth of a second, now and then, is no experiment."""
    simulator = Simulator(World(fixed=50.0, per_row=0.0, full=60_000.0), Random(7), cold=True)
    assert {p.decision.action for p in simulator.play([10] * 3_000)} == {D}


# --- costs that were measured -----------------------------------------------------------------------

MATRIX = [json.loads(line) for line in (ROOT / "benchmarks/results/matrix.jsonl").read_text().splitlines()]


def measured(cell: dict[str, Any]) -> Simulator:
    """A cell of the benchmark: an update is a row that goes and one that comes."""
    world = World(cell["differential_ms"], 0.0, cell["own_full_ms"], source_rows=cell["rows"])
    return Simulator(world, Random(1), cold=True)


@pytest.mark.parametrize("scenario", sorted({cell["scenario"] for cell in MATRIX}))
def test_the_better_way_is_chosen_where_both_were_measured(scenario: str) -> None:
    """Windows and repeated subqueries in full, most of the others differentially, whatever is tried on the way."""
    for cell in MATRIX:
        if cell["scenario"] != scenario or not cell["own_full_ms"]:
            continue
        simulator, rows = measured(cell), max(1, int(cell["rows"] * cell["percent"] / 50))
        for action in (D, D, F, D, F, D):
            simulator.take(action, rows)
        done = simulator.refresh(rows)
        worth = rows > SETTINGS.differential_free_rows or done.regret > 100
        assert done.cost <= 1.1 * done.better or not worth, cell


# --- what is remembered ------------------------------------------------------------------------------

any_run = st.builds(
    Run,
    st.sampled_from([D, D, F]),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.floats(1, 10**5),
    given_up_ms=st.sampled_from([0.0, 0.0, 0.5]),
)


@settings(max_examples=100, derandomize=True)
@given(st.lists(any_run, max_size=80))
def test_what_is_remembered_is_bounded_and_survives_being_written(runs: list[Run]) -> None:
    known = charge_compaction(reduce(add_run, runs, Experience()), 3.0)
    assert len(known.tried) <= 5 * 24
    assert len(known.in_full) <= 5 * 24
    done = [r for r in runs if r.action is D]
    if done:
        assert max(r.delta_rows for r in known.differential) >= max(r.delta_rows for r in done) / 2
    again = read_experience(write_experience(known))
    assert (again.count, len(again.runs), again.full_since.keys()) == (
        known.count,
        len(known.runs),
        known.full_since.keys(),
    )
    assert again == read_experience(write_experience(again))
    forgotten = add_run(known, Run(Action.REINITIALIZE, 0, 5, 1.0))
    assert [r.action for r in forgotten.runs] == [Action.REINITIALIZE]


@settings(max_examples=200, derandomize=True)
@given(st.lists(any_run, min_size=1, max_size=40), st.integers(1, 10**7))
def test_no_guess_is_beyond_what_the_runs_allow(runs: list[Run], rows: int) -> None:
    """Neither below the fastest run in proportion, nor above the slowest in proportion."""
    known = reduce(add_run, runs, Experience())
    found = estimate_cost(known, rows, 10**6).differential
    if found is None:
        assert not known.differential
        return
    assert found.low - 1e-6 <= found.ms <= found.high + 1e-6
    least = min(r.total_ms * min(1.0, rows / max(r.delta_rows, 1)) for r in found.runs)
    most = max(r.total_ms * max(1.0, rows / max(r.delta_rows, 1)) for r in found.runs)
    assert least / 2 - 1e-6 <= found.ms <= 2 * most + 1e-6  # runs that are alike count as one size
