"""Nexmark's queries as stream tables on Spark: incremental, and equal to the query after every batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.laws.nexmark import QUERIES, batch, create_tables, insert_rows


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("nexmark") / "warehouse") as tr:
        for statement in (*create_tables(), *insert_rows(1)):
            tr.sql(statement)
        yield tr


@pytest.mark.slow
def test_every_query_through_batches(site: Trickle) -> None:
    for name, query in QUERIES.items():
        site.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
    changed = dict.fromkeys(QUERIES, 0)
    for number in range(3):
        for statement in batch(1, number):
            site.sql(statement)
        for name in QUERIES:
            report = site.refresh(name)
            assert report.action is Action.DIFFERENTIAL, name
            changed[name] += report.rows_inserted + report.rows_deleted
            assert site.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], (name, number)
    assert all(changed.values()), changed
