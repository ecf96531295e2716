"""What the laws share: DuckDB's client for the warehouse, and a Spark that does not compile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle.spark.session import open_session
from tests.laws.oracle import LakeClient

# Every random table would have Spark compile code for it, which takes longer than running it.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="module")
def lake() -> Iterator[LakeClient]:
    client = LakeClient()
    yield client
    client.close()


@pytest.fixture
def interpreted() -> Iterator[None]:
    spark = open_session(None)
    before = {name: spark.conf.get(name) or "" for name in _INTERPRETED}
    for name, value in _INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)
