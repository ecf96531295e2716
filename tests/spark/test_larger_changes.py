"""A change of few columns may have more rows at the driver than other rows that it meets; the rest is for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action

WITHOUT_JOB = {
    "shown": "SELECT id, k, a FROM o WHERE a > 3",
    "summed": "SELECT k, sum(a) AS s, count(*) AS n FROM o GROUP BY k",
    "named": "SELECT o.id, o.a, d.name FROM o JOIN d ON o.k = d.id",
}
BEYOND = {
    # The change of what is numbered is computed at the driver, the numbers by Spark.
    "numbered": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY a, id) AS n FROM "
    "(SELECT o.id, o.k, sum(o.a) AS a FROM o GROUP BY o.id, o.k)",
    "paired": "SELECT o.id, p.id AS other FROM o JOIN o AS p ON o.a = p.a WHERE o.k = 1",
}


@pytest.mark.parametrize(
    "names", [("summed", "numbered"), pytest.param((*WITHOUT_JOB, *BEYOND), marks=pytest.mark.slow)]
)
def test_what_the_driver_can_do_takes_no_job(tmp_path: Path, names: tuple[str, ...]) -> None:
    with connect(tmp_path / "w", settings={"max_driver_rows": 10, "auto_compact": False}) as tr:
        tr.sql("CREATE TABLE o (id BIGINT, k INT, a INT, PRIMARY KEY (id))")
        tr.sql("CREATE TABLE d (id INT, name STRING, PRIMARY KEY (id))")
        tr.sql("INSERT INTO o SELECT id, CAST(id % 5 AS INT), CAST(id % 50 AS INT) FROM range(600)")
        tr.sql("INSERT INTO d SELECT CAST(id AS INT), concat('n', id) FROM range(5)")
        for name in names:
            query = (WITHOUT_JOB | BEYOND)[name]
            tr.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        for step in range(2):
            tr.sql(f"UPDATE o SET a = a + 1 WHERE id % 7 = {step}")
            tr.sql(f"DELETE FROM o WHERE id % 90 = {step}")
            for name in names:
                report = tr.refresh(name)
                assert report.action is Action.DIFFERENTIAL
                assert report.delta_rows > tr._connection.place.settings.max_refresh_rows
                assert ("spark" in report.phases) == (name in BEYOND), name
        for name in names:
            assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], name


def test_many_columns_are_for_spark(tmp_path: Path) -> None:
    columns = ", ".join(f"c{n} INT" for n in range(30))
    values = ", ".join(["CAST(id AS INT)"] * 30)
    with connect(tmp_path / "w", settings={"max_driver_rows": 10}) as tr:
        tr.sql(f"CREATE TABLE o (id BIGINT, {columns}, PRIMARY KEY (id))")
        tr.sql("CREATE STREAM TABLE shown REFRESH MODE DIFFERENTIAL AS SELECT id, c7 FROM o")
        tr.sql(f"INSERT INTO o SELECT id, {values} FROM range(50)")
        assert "spark" not in tr.refresh("shown").phases
        tr.sql(f"INSERT INTO o SELECT id, {values} FROM range(50, 101)")
        assert "spark" in tr.refresh("shown").phases
        assert tr.sql("SELECT * FROM trickle.audit('shown')").collect() == []
