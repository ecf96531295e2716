"""The cases of every operator and edge, on Spark: content, feed, and that it was really incremental."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.session import Trickle
from tests.cases.reader import Case
from tests.cases.test_cases import CASES, run_on_spark


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("cases") / "warehouse") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, tr: Trickle) -> None:
    run_on_spark(case, tr)
