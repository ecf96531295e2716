"""Definitions out and in: what is exported creates the same stream table again, wherever one is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.errors import InvalidDefinitionError, TableNotFoundError
from spark_trickle.session import Trickle
from tests.conftest import rows

_EXPORTED: dict[str, tuple[str, list[str]]] = {
    # a query that is written in schema s, and what happens to its sources afterwards
    "schema": ("SELECT id, v FROM t", []),
    "qualified columns": ("SELECT s.t.id, s.t.v, m.v AS w FROM s.t JOIN main.t m ON m.id = s.t.id", []),
    "renamed column": ("SELECT id, v + 1 AS w, t.v FROM t WHERE v > 0", ["RENAME COLUMN v TO amount"]),
    "swapped columns": (
        "SELECT id, v, g FROM t",
        ["RENAME COLUMN v TO x", "RENAME COLUMN g TO v", "RENAME COLUMN x TO g"],
    ),
    "renamed table": ("SELECT a.id FROM t a JOIN t b ON a.id = b.g", ["RENAME TO s.`other t`"]),
    "star": ("SELECT * FROM t", ["ADD COLUMN later INT DEFAULT 1", "RENAME COLUMN v TO amount"]),
    "dropped": ("SELECT x FROM (SELECT id AS x, note FROM t)", ["DROP COLUMN note"]),
    "cte": ("WITH t AS (SELECT id FROM s.t) SELECT count(*) AS n FROM t", ["RENAME COLUMN id TO number"]),
    "subquery": ("SELECT id FROM t WHERE v IN (SELECT max(v) FROM t)", ["RENAME COLUMN v TO amount"]),
    "view": ("SELECT id, doubled FROM seen", []),
    "view of a renamed column": ("SELECT id, doubled FROM seen s", ["RENAME COLUMN v TO amount"]),
}


_QUICK = ("schema", "renamed column", "star", "view of a renamed column")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", [n if n in _QUICK else pytest.param(n, marks=pytest.mark.slow) for n in _EXPORTED]
)
def test_an_exported_definition_makes_the_same_rows(tmp_path: Path, name: str) -> None:
    query, changes = _EXPORTED[name]
    with connect(tmp_path / "w") as tr:
        tr.sql("CREATE TABLE t AS VALUES (1, 100) AS t(id, v)")
        tr.sql("CREATE SCHEMA s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE t AS VALUES (1, 1, 10, 'a'), (2, 1, 20, 'b') AS t(id, g, v, note)")
        tr.sql("CREATE VIEW seen AS SELECT id, v * 2 AS doubled FROM t")
        tr.sql(f"CREATE STREAM TABLE st SCHEDULE '5m' WITH (tier = cold) AS {query}")
        for change in changes:
            tr.sql(f"ALTER TABLE s.t {change}")
        before = rows(tr.table("st"))
        text = tr.answer("export_definition", "st").rows[0][0]
        tr.sql("DROP STREAM TABLE st")
        tr.sql("USE main")
        tr.sql(text)
        assert rows(tr.sql("SELECT * FROM s.st")) == before
        assert "SCHEDULE '5m'" in text
        assert "tier = cold" in text
        again = tr.answer("export_definition", "s.st").rows[0][0]
        tr.sql("DROP STREAM TABLE s.st")
        tr.sql(again)
        assert rows(tr.sql("SELECT * FROM s.st")) == before


def test_definitions_are_created_in_the_order_that_they_need(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 1 AS id, 2 AS v")
    definitions = [
        {"name": "third", "query": "SELECT a.id, b.v FROM second a JOIN `first` b ON a.id = b.id"},
        {"name": "second", "query": "SELECT id FROM main.FIRST", "schedule": "1m"},
        {"name": "main.first", "query": "SELECT id, v FROM t", "refresh_mode": None},
    ]
    made = tr.answer("bulk_create", json.dumps(definitions)).rows
    assert [name for name, _ in made] == ["third", "second", "main.first"]
    assert rows(tr.table("third")) == [(1, 2)]
    circle = [{"name": "x", "query": "SELECT * FROM y"}, {"name": "y", "query": "SELECT * FROM x"}]
    with pytest.raises(TableNotFoundError):
        tr.answer("bulk_create", json.dumps(circle))


@pytest.mark.parametrize(
    "wrong",
    [{"columns": 5}, {"columns": [5]}, {"options": [1]}, {"schedule": 5}, {"refresh_mode": 5}, {"name": ""}],
)
def test_fields_of_another_kind_are_refused(module_tr: Trickle, wrong: dict[str, object]) -> None:
    from spark_trickle.errors import SqlSyntaxError

    definition = {"name": "q", "query": "SELECT id FROM t", **wrong}
    with pytest.raises((InvalidDefinitionError, SqlSyntaxError)):
        module_tr.answer("bulk_create", json.dumps([definition]))


_PURPOSES = {
    "SELECT v, sum(id) AS s, min(id) AS m FROM t GROUP BY v": ("groups the rows by", "the sum of", "the smallest value", "counts the rows"),
    "SELECT DISTINCT v FROM t": ("groups the rows by", "counts the rows"),
    "SELECT id, rank() OVER (PARTITION BY v ORDER BY id) + 1 AS r FROM t": ("the result of RANK()",),
    "SELECT id FROM t EXCEPT SELECT 2": ("groups the rows by", "counts the rows"),
    "SELECT id, v FROM t": (),
}  # fmt: skip


def test_auxiliary_columns_say_what_they_are_for(module_tr: Trickle) -> None:
    for n, (query, purposes) in enumerate(_PURPOSES.items()):
        module_tr.sql(f"CREATE STREAM TABLE aux{n} AS {query}")
        told = [row[-1] for row in module_tr.answer("list_auxiliary_columns", f"aux{n}").rows]
        assert all(told)
        for purpose in purposes:
            assert any(purpose in t for t in told), (query, told)


_OF_ALL = ("bulk_create",)


def test_a_source_that_was_dropped_is_named_everywhere(tmp_path: Path) -> None:
    from spark_trickle.errors import SourceLostError
    from spark_trickle.observe.functions import ANSWERS
    from spark_trickle.observe.metrics import Metrics

    with connect(tmp_path / "w", settings={"block_source_ddl": False}) as tr:
        tr.sql("CREATE TABLE t AS SELECT 1 AS id, 2 AS v")
        tr.sql("CREATE TABLE u AS SELECT 1 AS id")
        tr.sql("CREATE STREAM TABLE s AS SELECT t.v FROM t JOIN u ON u.id = t.id")
        tr.sql("CREATE STREAM TABLE above AS SELECT count(*) AS n FROM s")
        tr.gate_source("t")
        tr.sql("INSERT INTO u VALUES (2)")
        tr.sql("DROP TABLE t")
        for name, function in ANSWERS.items():
            if name not in _OF_ALL:
                told = _tell(tr, name, function.of_stream)
                assert "table 3" not in told, name
                assert "KeyError" not in told, name
        assert "main.t (dropped)" in str(tr.answer("dependency_tree").rows)
        assert "main.t (dropped)" in str(tr.answer("change_buffer_sizes").rows)
        assert list(Metrics(tr.answer).registry.collect())
        with pytest.raises(SourceLostError, match=r'the source "main\.t" was dropped'):
            tr.refresh("s")


def _tell(tr: Trickle, name: str, of_stream: bool) -> str:
    from spark_trickle.errors import SourceLostError

    try:
        return str(tr.answer(name, *(("s",) if of_stream else ())).rows)
    except SourceLostError as error:
        return error.message
