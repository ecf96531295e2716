"""Cases as text: what is written is read back the same, and a failure that is told fails again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.cases.reader import Bag, Case, CaseError, CaseTable, parse_cases
from tests.cases.test_cases import CASES, run_on_duckdb
from tests.cases.writer import Story, case_text, shrunk, told

_T = CaseTable(
    "t", (("k", "int"), ("s", "string"), ("h", "double")), Counter({(1, "a", 0.5): 2, (2, None, 3.0): 1})
)
_QUERY = "SELECT k, count(*) AS n, max(s) AS s, avg(h) AS h, k > 1 AS b FROM t GROUP BY k"
_BATCHES: list[dict[str, Bag]] = [
    {"t": Counter({(1, "a", 0.5): -1, (3, "b (c), d", -1e20): 2})},
    {"t": Counter({(1, "a", 0.5): -1, (2, None, 1e-7): 1})},
]


def without_lines(case: Case) -> Case:
    """Where a case stands is not what it says; nor is a table that a step leaves as it was."""
    steps = (replace(s, line=0, changes={n: c for n, c in s.changes.items() if c}) for s in case.steps)
    return replace(case, family="", number=0, steps=tuple(steps))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_written_case_is_read_back(case: Case) -> None:
    (again,) = parse_cases(case_text(case), case.family)
    assert without_lines(again) == without_lines(case)


def test_a_story_is_told_as_a_case_that_holds() -> None:
    case = told(Story((_T,), _QUERY, _BATCHES), "groups")
    assert case_text(case) == (
        "# groups\n"
        "table t(k int, s string, h double)   (1, 'a', 0.5) (1, 'a', 0.5) (2, NULL, 3.0)\n"
        f"view  {_QUERY}\n"
        "step  t -(1, 'a', 0.5) +(3, 'b (c), d', -100000000000000000000.0) +(3, 'b (c), d', -100000000000000000000.0)\n"
        "delta -(1, 2, 'a', 0.5, false) +(1, 1, 'a', 0.5, false) +(3, 2, 'b (c), d', -100000000000000000000.0, true)\n"
        "step  t -(1, 'a', 0.5) +(2, NULL, 0.0000001)\n"
        "delta -(1, 1, 'a', 0.5, false) -(2, 1, NULL, 3.0, true) +(2, 2, NULL, 1.50000005, true)\n"
    )
    (again,) = parse_cases(case_text(case), "chance")
    assert without_lines(again) == without_lines(case)
    run_on_duckdb(again)


def test_a_story_without_batches_still_says_what_the_query_says() -> None:
    (case,) = parse_cases(case_text(told(Story((_T,), _QUERY), "at once")), "chance")
    assert case.steps[0].changes == {}
    run_on_duckdb(case)


def test_a_story_shrinks_to_what_matters() -> None:
    def fails(story: Story) -> bool:
        """As if everything about 3 went wrong."""
        return any(row[0] == 3 and n > 0 for state in story.states() for row, n in state["t"].items())

    small = shrunk(Story((_T,), _QUERY, _BATCHES), fails)
    assert small.tables[0].rows == Counter()
    assert small.batches == [{"t": Counter({(3, "b (c), d", -1e20): 2})}]


@pytest.mark.parametrize("value", ["it's", "a\nb", float("nan"), (1, 2)])
def test_what_a_case_cannot_hold_is_refused(value: object) -> None:
    table = CaseTable("t", (("s", "string"),), Counter({(value,): 1}))
    case = Case("family", 1, "name", (table,), "SELECT s FROM t", "SELECT s FROM t", ())
    with pytest.raises(CaseError, match="cannot stand in a case"):
        case_text(case)
