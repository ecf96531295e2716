"""Any name works for a table and for a column: words of SQL, other scripts, brackets, dots, backticks."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.session import Trickle
from spark_trickle.sql.lexer.words import quote
from tests.conftest import DuckQuery, rows
from tests.spark.paths import Lake

NAMES = [
    "select",
    "from",
    "Größe",
    "表 一",
    "a.b",
    "a`b",
    "{x}",
    "'q\"",
    "1a",
    "%s:x",
    "a b\tc",
    "✓",
    "end",
    "-- c",
]


def duck_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.one_in(2)
def test_tables_of_any_name(tr: Trickle, duck: DuckQuery) -> None:
    """Also in a schema of any name, read by both engines, and never mixed up."""
    for number, name in enumerate(NAMES):
        tr.sql(f"CREATE TABLE {quote(name)} (id INT PRIMARY KEY, v INT DEFAULT {number})")
        with tr.transaction():
            tr.sql(f"INSERT INTO {quote(name)} (id) VALUES (1), (2), (3)")
            tr.sql(f"DELETE FROM {quote(name)} WHERE {quote(name)}.id = 3")
        assert tr.table(quote(name)).columns == ["id", "v"]
    joined = " UNION ALL ".join(
        f"SELECT {n}, count(*), max({quote(t)}.v) FROM {quote(t)}" for n, t in enumerate(NAMES)
    )
    assert rows(tr.sql(joined)) == sorted([(n, 2, n) for n in range(len(NAMES))], key=repr)
    assert {row.tableName for row in tr.sql("SHOW TABLES").collect()} == set(NAMES)
    counts = [duck(f"SELECT count(*), max(v) FROM lake.{duck_quoted(t)}")[0] for t in NAMES]
    assert counts == [(2, n) for n in range(len(NAMES))]


def test_names_with_dots_are_never_mixed_up(tr: Trickle, duck: DuckQuery) -> None:
    """Table `b.c` of schema `a` and table `c` of schema `a.b` are two, for both engines."""
    tr.sql("CREATE SCHEMA a")
    tr.sql("CREATE SCHEMA `a.b`")
    tr.sql("CREATE TABLE a.`b.c` AS SELECT 1 AS x")
    tr.sql("CREATE TABLE `a.b`.c AS SELECT 2 AS x")
    tr.sql("UPDATE `a.b`.c SET x = `a.b`.c.x + 1")
    assert rows(tr.sql("SELECT p.x, q.x FROM a.`b.c` p, `a.b`.c q")) == [(1, 3)]
    assert duck('SELECT p.x, q.x FROM lake.a."b.c" p, lake."a.b".c q') == [(1, 3)]


@pytest.mark.one_in(2)
def test_columns_of_any_name(lake: Lake) -> None:
    """Also names that our own queries use inside, through every statement and both ways of writing."""
    inner = [
        "_file",
        "file_name",
        "_version",
        "_time",
        "_updates",
        "_copy",
        "_zero_0",
        "_o0",
        "_n1",
        "_v2",
        "{tail}",
    ]
    inner += [
        "{settled}",
        "{log}",
        "{rows}",
        "{_trickle_0}",
        "base",
        "gone",
        "weighed",
        "path",
        "struct",
        "copies",
    ]
    names = [*NAMES, *inner]
    tr = lake.tr
    tr.sql(f"CREATE TABLE odd (id INT, f DOUBLE, {', '.join(f'{quote(n)} INT' for n in names)})")
    before = tr.snapshot
    values = ", ".join(str(n) for n in range(len(names)))
    tr.sql(
        f"INSERT INTO odd VALUES (1, -0D, {values}), (2, 0D, {values}), (3, 1, {values}), (3, 1, {values})"
    )
    tr.sql(f"UPDATE odd SET {', '.join(f'{quote(n)} = {quote(n)} + 100' for n in names)} WHERE id < 3")
    given = ", ".join(f"s.{quote(n)}" for n in names)
    tr.sql(
        f"MERGE INTO odd USING (SELECT * FROM odd WHERE id < 3) AS s ON odd.id = s.id + 10 "
        f"WHEN NOT MATCHED THEN INSERT (id, f, {', '.join(quote(n) for n in names)}) VALUES (s.id + 10, s.f, {given})"
    )
    tr.sql(f"DELETE FROM odd WHERE {quote(names[0])} = 0 AND {quote('{tail}')} >= 0")
    row = tuple(range(100, 100 + len(names)))
    expected = [(n, f, *row) for n, f in ((1, -0.0), (11, -0.0), (12, 0.0), (2, 0.0))]
    assert rows(tr.sql("SELECT * FROM odd")) == expected
    feed = tr.sql(
        f"SELECT {quote('_version')}, {quote('file_name')}, _change_type FROM trickle.changes('odd', {before})"
    )
    assert len(feed.collect()) == 12
    tr.sql("OPTIMIZE odd")
    assert rows(tr.table("odd")) == expected
    for number, name in enumerate(names):
        tr.sql(f"ALTER TABLE odd RENAME COLUMN {quote(name)} TO c{number}")
    assert rows(tr.sql("SELECT DISTINCT c0, c5 FROM odd")) == [(100, 105)]


def test_our_own_columns_cannot_be_taken(module_tr: Trickle) -> None:
    for name in (
        "_w",
        "_W",
        "_metadata",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "_trickle_x",
    ):
        with pytest.raises(InvalidDefinitionError):
            module_tr.sql(f"CREATE TABLE x (a INT, {name} INT)")
        with pytest.raises(InvalidDefinitionError):
            module_tr.sql(f"ALTER TABLE t ADD COLUMN {name} INT")
