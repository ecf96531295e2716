"""The tail of a table with a key: the rows are the same, whoever finds out which are left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark_trickle.session import Trickle, connect
from spark_trickle.txn import long_tail
from tests.conftest import rows

_FILE = "_trickle_file"
_SETTINGS = {"local_tail_rows": 0, "auto_compact": False}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "start"), [("BIGINT", -70), ("INT", 0), ("TINYINT", 63)])
def test_rows_are_the_same(kind: str, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql(f"CREATE TABLE t (id {kind}, v INT, PRIMARY KEY (id))")
        tr.sql(f"INSERT INTO t SELECT CAST(id + {start} AS {kind}), 0 FROM range(64)")
        tr.sql("DELETE FROM t WHERE id % 5 = 0")
        tr.sql("UPDATE t SET v = 1, id = id WHERE id % 3 = 0")
        tr.sql(
            f"INSERT INTO t VALUES ({max(start, 0)}, 7)" if start % 5 == 0 else "DELETE FROM t WHERE id = 64"
        )
        found = _every_way(tr, monkeypatch)
        assert found[0] == found[1] == found[2]
        assert rows(tr.sql("SELECT count(*), sum(id), sum(v) FROM t")) == [
            (len(found[0]), sum(r[0] for r in found[0]), sum(r[1] for r in found[0]))
        ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_change_again_and_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added may go in a later change, and what went may come back as it was."""
    chance = random.Random(seed)
    expected = dict.fromkeys(range(20), 0)
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(20)")
        for _ in range(8):
            ids = chance.sample(range(24), 6)
            listed = ", ".join(map(str, ids))
            match chance.randrange(3):
                case 0:
                    tr.sql(f"DELETE FROM t WHERE id IN ({listed})")
                    expected = {i: v for i, v in expected.items() if i not in ids}
                case 1:
                    value = chance.randrange(2)
                    tr.sql(f"UPDATE t SET v = {value} WHERE id IN ({listed})")
                    expected = {i: value if i in ids else v for i, v in expected.items()}
                case _:
                    missing = {i: chance.randrange(2) for i in ids if i not in expected}
                    if missing:
                        tr.sql(f"INSERT INTO t VALUES {', '.join(f'({i}, {v})' for i, v in missing.items())}")
                    expected |= missing
        tr.sql("OPTIMIZE t") if chance.random() < 0.3 else None
        tr.sql("UPDATE t SET v = 1 - v")
        tr.sql("UPDATE t SET v = 1 - v WHERE id % 2 = 0")
        expected = {i: v if i % 2 == 0 else 1 - v for i, v in expected.items()}
        for way in _every_way(tr, monkeypatch):
            assert dict(way) == expected


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""])
def test_numbers_at_both_ends(key: str, tmp_path: Path) -> None:
    """The place of a number among the bits is a difference, which most of these do not have."""
    least, most = -(2**63), 2**63 - 1
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql(f"CREATE TABLE t (id BIGINT, v STRING{key})")
        tr.sql(f"INSERT INTO t SELECT {least}L + id, 'a' FROM range(20)")
        tr.sql(f"INSERT INTO t SELECT {most}L - id, 'b' FROM range(20)")
        tr.sql(f"DELETE FROM t WHERE id < {least + 20} AND id % 3 = 0")
        tr.sql(f"UPDATE t SET v = 'c' WHERE id IN ({least + 1}, {least + 2})")
        assert "shiftright" in _plan(tr)
        lower = [(i, "c" if i in (least + 1, least + 2) else "a") for i in range(least, least + 20) if i % 3]
        upper = [(most - i, "b") for i in reversed(range(20))]
        assert sorted(map(tuple, tr.table("t").collect())) == lower + upper


_KEYS = {
    "two columns": ("a INT, b STRING", "id % 5, concat('n', id)", "a, b"),
    "a date": ("a DATE", "date_add(DATE'2020-01-01', CAST(id AS INT))", "a"),
    "far apart": ("a BIGINT", "id * 10000000000", "a"),
    "a decimal": ("a DECIMAL(9, 2)", "id", "a"),  # which is left to the join
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", _KEYS)
def test_keys_without_bits(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns, values, key = _KEYS[kind]
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql(f"CREATE TABLE t (id INT, {columns}, v INT, PRIMARY KEY ({key}))")
        tr.sql(f"INSERT INTO t SELECT id, {values}, 0 FROM range(30)")
        tr.sql("DELETE FROM t WHERE id % 3 = 0")
        assert (_FILE in _plan(tr)) is False  # one change: no row is overtaken
        tr.sql("UPDATE t SET v = 1 WHERE id % 5 = 1")
        tr.sql("UPDATE t SET v = 0 WHERE id % 5 = 1")  # as it was
        tr.sql(f"INSERT INTO t SELECT id, {values}, 2 FROM range(0, 30, 6)")
        tr.sql("DELETE FROM t WHERE id % 4 = 0")
        expected = {i: 0 for i in range(30) if i % 3} | dict.fromkeys(range(0, 30, 6), 2)
        expected = {i: v for i, v in sorted(expected.items()) if i % 4}
        assert (_FILE in _plan(tr)) is (kind != "a decimal")
        assert "shiftright" not in _plan(tr)
        assert dict(rows(tr.sql("SELECT id, v FROM t"))) == expected
        monkeypatch.setattr(long_tail, "_MOST_KEYS", -1)
        assert _FILE not in _plan(tr)
        assert dict(rows(tr.sql("SELECT id, v FROM t"))) == expected


def test_columns_that_were_renamed_and_added(tmp_path: Path) -> None:
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(10)")
        tr.sql("UPDATE t SET v = 1 WHERE id < 4")
        tr.sql("ALTER TABLE t RENAME COLUMN v TO w")
        tr.sql("ALTER TABLE t ADD COLUMN x INT DEFAULT 3")
        tr.sql("UPDATE t SET w = 2, x = 4 WHERE id < 2")
        tr.sql("DELETE FROM t WHERE id = 9")
        assert "shiftright" in _plan(tr)
        changed = [(0, 2, 4), (1, 2, 4), (2, 1, 3), (3, 1, 3)]
        assert rows(tr.table("t")) == changed + [(i, 0, 3) for i in range(4, 9)]


def _every_way(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[object, ...]]]:
    """Keys that are read at the driver; bits that Spark makes; a join."""
    found = []
    assert "shiftright" in _plan(tr)
    assert "bit_or" not in _plan(tr)
    found.append(rows(tr.table("t")))
    monkeypatch.setattr(long_tail, "_MOST_KEYS", -1)
    assert "shiftright" not in _plan(tr)
    found.append(rows(tr.table("t")))
    monkeypatch.setattr(long_tail, "_MANY_KEYS", 1)
    assert "bit_or" in _plan(tr)
    found.append(rows(tr.table("t")))
    return found


def _plan(tr: Trickle) -> str:
    tr.table("t").createOrReplaceTempView("many_deleted_keys")
    return "\n".join(r[0] for r in tr.spark.sql("EXPLAIN EXTENDED SELECT * FROM many_deleted_keys").collect())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_rows_without_a_key(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows repeat, some of equal ones go, zeros have signs, and numbers that went are those of other rows too."""
    chance = random.Random(seed)
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql("CREATE TABLE t (n INT, m SMALLINT, s STRING, f DOUBLE)")
        tr.sql(
            "INSERT INTO t SELECT id % 40 * 10, id % 3, IF(id % 5 = 0, NULL, 'x'), IF(id % 2 = 0, -0D, 0D) FROM range(90)"
        )
        tr.sql("DELETE FROM t WHERE n = 70")
        for _ in range(5):
            n = chance.randrange(40) * 10
            tr.sql(
                chance.choice(
                    [
                        f"DELETE FROM t WHERE n = {n}",
                        f"DELETE FROM t WHERE n BETWEEN {n} AND {n + 90} AND rand() < 0.5",
                        f"UPDATE t SET f = -f WHERE n BETWEEN {n} AND {n + 40}",
                        f"UPDATE t SET n = n + 10 WHERE m = {n % 3}",
                        f"INSERT INTO t SELECT n, m, s, f FROM t WHERE n > {n}",
                    ]
                )
            )
        assert "shiftright" in _plan(tr)
        guided = sorted(map(repr, tr.table("t").collect()))
        monkeypatch.setattr(long_tail, "_MOST_KEYS", -1)
        assert "shiftright" not in _plan(tr)
        assert guided == sorted(map(repr, tr.table("t").collect()))
        monkeypatch.undo()
        tr.sql("INSERT INTO t VALUES (NULL, NULL, 'y', 1)")
        tr.sql("DELETE FROM t WHERE n IS NULL")  # no number is a guide to that
        assert "shiftright" not in _plan(tr)
        assert guided == sorted(map(repr, tr.table("t").collect()))


def test_a_number_that_most_rows_have_is_no_guide(tmp_path: Path) -> None:
    with connect(tmp_path / "w", settings=_SETTINGS) as tr:
        tr.sql("CREATE TABLE t (n INT, s STRING)")
        tr.sql("INSERT INTO t SELECT id % 4, concat('x', id) FROM range(40)")
        tr.sql("DELETE FROM t WHERE s IN ('x0', 'x1', 'x2', 'x3')")
        assert "shiftright" not in _plan(tr)
        assert rows(tr.sql("SELECT n, count(*) FROM t GROUP BY n")) == [(n, 9) for n in range(4)]
