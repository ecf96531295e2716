"""The cases of every operator and edge, on Spark: content, feed, and that it was really incremental."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.session import Trickle
from tests.cases.reader import Case
from tests.cases.test_cases import CASES, run_on_spark

SAMPLE = CASES[::36]


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("cases") / "warehouse") as made:
        yield made


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_some_cases(case: Case, tr: Trickle) -> None:
    run_on_spark(case, tr)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c not in SAMPLE], ids=lambda case: case.id)
def test_all_cases(case: Case, tr: Trickle) -> None:
    run_on_spark(case, tr)
