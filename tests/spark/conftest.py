"""A warehouse whose statements run at the driver, and one whose statements run on the executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import spark_trickle
from spark_trickle.session import Trickle
from tests.spark.paths import Case, Lake, open_lake


@pytest.fixture(scope="module", params=["driver", "executors"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Shared by the tests of a file: each makes tables of its own in it."""
    yield from open_lake(tmp_path_factory.mktemp("lake"), request.param == "executors")


@pytest.fixture(scope="module")
def module_tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """A warehouse shared by the tests of a file that only read, or are refused; it has one small table t."""
    with spark_trickle.connect(tmp_path_factory.mktemp("shared")) as connection:
        connection.sql("CREATE TABLE t AS VALUES (1, 'a'), (2, 'b'), (3, NULL) AS x(id, v)")
        yield connection


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a family on both, every third statement runs at the driver and every ninth on the executors.

    Of forms, which are other ways to write what another case does, every ninth runs, at the driver.
    """
    members: Counter[tuple[str, bool, str]] = Counter()
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        case, engine = given.get("case"), given.get("lake")
        if engine is None or item.get_closest_marker("slow"):
            continue
        is_form = isinstance(case, Case) and case.form
        on_executors = engine == "executors"
        family = (item.nodeid.partition("[")[0], is_form, engine)
        if (is_form and on_executors) or members[family] % (9 if is_form or on_executors else 3):
            item.add_marker(pytest.mark.slow)
        members[family] += 1
