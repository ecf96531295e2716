"""Several statements as one commit: they see their own writes, fail alone, and vanish together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.errors import ConflictError, DuplicateKeyError, TransactionStateError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.spark.paths import Lake, net_feed

pytestmark = pytest.mark.both_catalogs


def feed(tr: Trickle, name: str, after: int) -> list[tuple[Any, ...]]:
    """The feed without its timestamps."""
    return rows(tr.changes(name, after=after).drop("_commit_timestamp", "_commit_version"))


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "catalog" not in p.name}


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OVERWRITE t VALUES ({n})",
        "MERGE INTO t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_what_depends_on_all_rows_of_a_table_knows_of_those_that_came(
    tr: Trickle, location: Location, sql: str
) -> None:
    """One of two transactions fails, and a single statement is run again: as if one came after the other."""
    tr.sql("CREATE TABLE t (id INT)")
    with location.connect() as other:
        other.sql("BEGIN")
        other.sql(sql.format(n=1))
        tr.sql(sql.format(n=2))
        with pytest.raises(ConflictError):
            other.sql("COMMIT")
    assert rows(tr.table("t")) == [(2,)] if "OVERWRITE" in sql else [(5,)]


def test_a_transaction_sees_its_own_writes_and_others_do_not(tr: Trickle, location: Location) -> None:
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, v STRING)")
    tr.sql("CREATE TABLE log (what STRING)")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    before = tr.snapshot
    with location.connect() as other:
        with tr.transaction() as same:
            assert same is tr
            tr.sql("INSERT INTO t VALUES (3, 'c')")
            done = tr.sql("UPDATE t SET v = upper(v) WHERE id >= 2").collect()[0]
            assert tuple(done)[:3] == (0, 2, 0)
            tr.sql("DELETE FROM t WHERE id = 1")
            tr.sql("INSERT INTO log SELECT v FROM t")
            assert rows(tr.table("t")) == [(2, "B"), (3, "C")]
            assert rows(tr.sql("SELECT * FROM log JOIN t ON what = v")) == [("B", 2, "B"), ("C", 3, "C")]
            assert rows(tr.sql(f"SELECT id FROM t VERSION AS OF {before}")) == [(1,), (2,)]
            assert rows(other.table("t")) == [(1, "a"), (2, "b")]
        assert rows(other.table("t")) == [(2, "B"), (3, "C")]
        assert other.snapshot == before + 1
    assert feed(tr, "t", before) == [
        (1, "a", "delete"), (2, "B", "update_postimage"), (2, "b", "update_preimage"), (3, "C", "insert"),
    ]  # fmt: skip


def test_begin_commit_and_rollback_as_statements(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (a INT)")
    for wrong in ("COMMIT", "ROLLBACK"):
        with pytest.raises(TransactionStateError):
            tr.sql(wrong)
    before = tr.snapshot
    tr.sql("START TRANSACTION")
    tr.sql("INSERT INTO t VALUES (1)")
    for wrong in ("BEGIN", "OPTIMIZE t", "VACUUM"):
        with pytest.raises(TrickleError):
            tr.sql(wrong)
    tr.sql("ROLLBACK")
    assert (rows(tr.table("t")), tr.snapshot) == ([], before)
    tr.sql("BEGIN TRANSACTION")
    assert tr.sql("COMMIT").collect()[0].snapshot == before
    tr.sql("BEGIN")
    tr.sql("INSERT INTO t VALUES (1)")
    tr.sql("INSERT INTO t VALUES (2)")
    assert tr.sql("COMMIT WORK").collect()[0].snapshot == before + 1
    assert rows(tr.table("t")) == [(1,), (2,)]
    tr.sql("BEGIN")
    tr.sql("INSERT INTO t VALUES (3)")
    tr.close()
    with pytest.raises(TransactionStateError):
        tr.sql("SELECT 1")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most_driver_rows", [100_000, 1])
def test_rollback_leaves_no_file(tmp_path: Path, most_driver_rows: int) -> None:
    settings = {"max_driver_rows": most_driver_rows, "auto_compact": False}
    with spark_trickle.connect(tmp_path, settings=settings) as tr:
        tr.sql("CREATE TABLE t AS SELECT id, id AS v FROM range(4)")
        before, snapshot = files_in(tmp_path), tr.snapshot
        with pytest.raises(ZeroDivisionError), tr.transaction():  # noqa: PT012
            tr.sql("CREATE TABLE u AS SELECT * FROM t")
            tr.sql("INSERT INTO t SELECT id + 10, v FROM t")
            tr.sql(
                "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET v = 9 WHEN NOT MATCHED BY SOURCE THEN DELETE"
            )
            tr.sql("INSERT OVERWRITE u SELECT * FROM t")
            tr.sql("TRUNCATE TABLE t")
            raise ZeroDivisionError
        assert files_in(tmp_path) == before
        for wrong in ("INSERT INTO t SELECT 1 / (id - 2), v FROM t", "UPDATE t SET v = 1 / (id - 2)"):
            with pytest.raises(TrickleError):
                tr.sql(wrong)
        with pytest.raises(TrickleError):
            tr.sql(
                "MERGE INTO t USING (SELECT 1 AS id FROM t) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1"
            )
        assert files_in(tmp_path) == before
        assert tr.snapshot == snapshot
        assert rows(tr.sql("SHOW TABLES")) == [("main", "t", False)]
        # what a transaction needed only on its way does not stay either
        tr.sql(
            "MERGE INTO t USING (SELECT * FROM t) s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v"
        )
        committed = files_in(tmp_path) - before
        assert all(name.endswith((".parquet", ".crc")) and "staged" not in name for name in committed)


@pytest.mark.one_in(2)
def test_a_failing_statement_leaves_the_rest_of_its_transaction(lake: Lake) -> None:
    tr = lake.tr
    lake.setup.sql("CREATE TABLE kept (id INT PRIMARY KEY, v STRING)")
    with tr.transaction():
        tr.sql("INSERT INTO kept VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        with pytest.raises(DuplicateKeyError):
            tr.sql("INSERT INTO kept VALUES (9, 'x'), (2, 'y'), (1, 'z')")
        with pytest.raises(TrickleError):
            tr.sql("ALTER TABLE kept ADD COLUMN id INT")
        with pytest.raises(TrickleError):
            tr.sql("CREATE TABLE made AS SELECT 1 / (id - 2) AS x FROM kept")
        tr.sql("UPDATE kept SET v = v || v WHERE id > 1")
    assert rows(tr.table("kept")) == [(1, "a"), (2, "bb"), (3, "cc")]
    assert ("main", "made", False) not in rows(tr.sql("SHOW TABLES"))


@pytest.mark.one_in(2)
def test_definitions_inside_a_transaction(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    before = tr.snapshot
    with tr.transaction():
        tr.sql("CREATE SCHEMA s")
        tr.sql("CREATE TABLE s.u (id INT PRIMARY KEY, v INT)")
        tr.sql("INSERT INTO s.u VALUES (1, 1), (2, 2)")
        tr.sql("ALTER TABLE s.u ADD COLUMN w INT DEFAULT 5")
        tr.sql("UPDATE s.u SET w = w + v WHERE id = 2")
        tr.sql("ALTER TABLE s.u RENAME COLUMN v TO x")
        tr.sql("CREATE VIEW seen AS SELECT x + w AS y FROM s.u")
        assert rows(tr.sql("SELECT * FROM seen")) == [(6,), (9,)]
        tr.sql("UPDATE t SET a = 2")
        tr.sql("ALTER TABLE t DROP COLUMN b")
        tr.sql("ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
        tr.sql("UPDATE t SET b = b + 1")
        tr.sql("CREATE TABLE gone AS SELECT 1 AS a")
        tr.sql("DROP TABLE gone")
        assert rows(tr.table("t")) == [(2, 8)]
    assert tr.snapshot == before + 1
    assert rows(tr.table("t")) == [(2, 8)]
    assert rows(tr.sql("SELECT id, x, w FROM s.u")) == [(1, 1, 5), (2, 2, 7)]
    assert rows(tr.table("t", snapshot=before)) == [(1, "x")]


# Statements of one transaction on (1, 'a'), (2, 'b'), (3, 'c'), what is there after, and what the feed tells.
_NET = [
    (["INSERT (4, 'd')", "DELETE id = 4"], "123", {}),
    (["DELETE id = 1", "INSERT (1, 'a')"], "123", {}),
    (["UPDATE v = 'z'", "UPDATE v = 'y'", "DELETE id = 3"], "1y 2y", {"1a": -1, "1y": 1, "2b": -1, "2y": 1, "3c": -1}),
    (["TRUNCATE", "INSERT (1, 'a')", "UPDATE v = 'z'"], "1z", {"1a": -1, "1z": 1, "2b": -1, "3c": -1}),
    (["OVERWRITE (7, 'q'), (8, 'r')", "UPDATE v = 'z'", "DELETE id = 8"], "7z", {"1a": -1, "2b": -1, "3c": -1, "7z": 1}),
    (["INSERT (4, 'd')", "TRUNCATE", "INSERT (1, 'a')", "TRUNCATE"], "", {"1a": -1, "2b": -1, "3c": -1}),
]  # fmt: skip
_SPELLED = {"INSERT": "INSERT INTO {} VALUES", "DELETE": "DELETE FROM {} WHERE", "UPDATE": "UPDATE {} SET"}
_SPELLED |= {"TRUNCATE": "TRUNCATE TABLE {}", "OVERWRITE": "INSERT OVERWRITE {} VALUES"}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""], ids=["keyed", "keyless"])
@pytest.mark.parametrize(("steps", "after", "net"), _NET, ids=[" ".join(n[0]) for n in _NET])
def test_the_feed_of_a_transaction_is_its_net(
    lake: Lake, key: str, steps: list[str], after: str, net: dict[str, int]
) -> None:
    """The content is right after the commit as in the transaction, and no row comes and goes in one snapshot."""
    tr, name = lake.tr, f"n{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (id INT, v STRING{key})")
    lake.setup.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before = tr.snapshot
    expected = sorted((int(x[0]), x[1]) for x in (after.replace("123", "1a 2b 3c").split()))
    with tr.transaction():
        for step in steps:
            word, _, rest = step.partition(" ")
            text = _SPELLED[word] if rest else _SPELLED[word].removesuffix(" WHERE")
            tr.sql(f"{text.format(name)} {rest}")
        assert rows(tr.table(name)) == expected
    assert rows(tr.table(name)) == expected
    bag = Counter({repr((int(r[0]), r[1])): w for r, w in net.items()})
    assert net_feed(tr, name, before) == bag
    assert tr.changes(name, after=before).count() == len(net)


def test_what_starts_empty_can_be_overwritten_and_changed(lake: Lake) -> None:
    """The order of the steps is kept also where the first of them had nothing to replace."""
    tr = lake.tr
    lake.setup.sql("CREATE TABLE fresh (id INT PRIMARY KEY, v STRING)")
    with tr.transaction():
        tr.sql("INSERT OVERWRITE fresh VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        tr.sql("DELETE FROM fresh WHERE id > 1")
        tr.sql("UPDATE fresh SET v = 'z' WHERE id = 1")
        assert rows(tr.table("fresh")) == [(1, "z")]
    assert rows(tr.table("fresh")) == [(1, "z")]


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""], ids=["keyed", "keyless"])
def test_what_is_overwritten_is_one_step_and_what_follows_another(lake: Lake, key: str) -> None:
    tr, name = lake.tr, f"once{len(key)}"
    lake.setup.sql(f"CREATE TABLE {name} (id INT{key}, v STRING)")
    with tr.transaction():
        tr.sql(f"INSERT OVERWRITE {name} VALUES (1, 'a'), (2, 'b')")
        tr.sql(f"UPDATE {name} SET v = 'z' WHERE id = 1")
        assert rows(tr.table(name)) == [(1, "z"), (2, "b")]
    assert rows(tr.table(name)) == [(1, "z"), (2, "b")]


def test_transactions_conflict_only_where_they_must(tr: Trickle, location: Location) -> None:
    tr.sql("CREATE TABLE bag (a INT)")
    tr.sql("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)")
    tr.sql("INSERT INTO keyed VALUES (1, 0)")
    with location.connect() as other:
        with tr.transaction():
            tr.sql("INSERT INTO bag VALUES (1)")
            other.sql("INSERT INTO bag VALUES (2)")
            other.sql("UPDATE keyed SET v = 1")
        assert rows(tr.table("bag")) == [(1,), (2,)]
        with pytest.raises(ConflictError) as found, tr.transaction():  # noqa: PT012
            tr.sql("UPDATE keyed SET v = v + 10")
            other.sql("UPDATE keyed SET v = v + 100")
        assert found.value.retryable
        assert rows(tr.table("keyed")) == [(1, 101)]
        with pytest.raises(ConflictError), tr.transaction():  # noqa: PT012
            tr.sql("INSERT INTO keyed VALUES (2, 0)")
            other.sql("INSERT INTO keyed VALUES (2, 1)")
        assert rows(tr.table("keyed")) == [(1, 101), (2, 1)]
