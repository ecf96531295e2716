"""The cases of every operator and edge, on Spark: content, feed, and that it was really incremental.

Once as users have it, where the driver computes what it can, and once with Spark alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.session import Trickle
from tests.cases.reader import Case
from tests.cases.test_cases import CASES, run_on_spark


@pytest.fixture(scope="module", params=["driver", "spark"])
def tr(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    folder = tmp_path_factory.mktemp("cases") / "warehouse"
    with connect(folder, settings={"small_changes": request.param}) as made:
        yield made


@pytest.mark.one_in(73)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, tr: Trickle, request: pytest.FixtureRequest) -> None:
    run_on_spark(case, tr, by_spark=request.node.callspec.params["tr"] == "spark")
