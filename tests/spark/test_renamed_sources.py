"""Stream tables whose sources get other names, types and columns: they stay exact, also when they are rebuilt."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, SourceLostError
from spark_trickle.session import Trickle
from spark_trickle.sql.lexer.words import quote
from tests.conftest import Row, rows

_OPEN = {"block_source_ddl": False}


@pytest.fixture(autouse=True)
def utc(spark_zone: Callable[[str], None]) -> None:
    spark_zone("UTC")


@pytest.fixture
def spark_zone() -> Iterator[Callable[[str], None]]:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    before = session.conf.get("spark.sql.session.timeZone") if session is not None else None

    def change(zone: str) -> None:
        if (active := SparkSession.getActiveSession()) is not None:
            active.conf.set("spark.sql.session.timeZone", zone)

    yield change
    if before is not None:
        change(before)


_TABLE = "CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT, at TIMESTAMP, note STRING)"
_ROWS = (
    "INSERT INTO t VALUES (1, 1, 10, TIMESTAMP '2026-01-31 23:30:00', 'a'), "
    "(2, 1, 20, TIMESTAMP '2026-02-01 00:30:00', 'b'), "
    "(3, 2, 30, NULL, NULL)"
)
_CASES: dict[str, tuple[str, list[str], str]] = {
    # a query, what changes its source, the same query by the names of then
    "grouped": (
        "SELECT g, sum(v) AS total FROM t GROUP BY g",
        ["RENAME COLUMN v TO amount", "ALTER COLUMN amount TYPE BIGINT"],
        "SELECT g, sum(amount) AS total FROM t GROUP BY g",
    ),
    "by day": (
        "SELECT CAST(at AS DATE) AS day, count(*) AS n FROM t GROUP BY CAST(at AS DATE)",
        ["RENAME COLUMN at TO happened", "zone Asia/Tokyo"],
        "SELECT CAST(happened AS DATE) AS day, count(*) AS n FROM t GROUP BY CAST(happened AS DATE)",
    ),
    "another column took its name": (
        "SELECT id, v, t.g FROM t WHERE v > 10",
        ["RENAME COLUMN v TO w", "RENAME COLUMN g TO v", "RENAME COLUMN w TO g", "ALTER COLUMN g TYPE BIGINT"],
        "SELECT id, g AS v, v AS g FROM t WHERE g > 10",
    ),
    "a new column took its name": (
        "SELECT id, v FROM t WHERE v > 10",
        ["RENAME COLUMN v TO w", "ADD COLUMN v STRING DEFAULT 'x'", "ALTER COLUMN w TYPE BIGINT"],
        "SELECT id, w AS v FROM t WHERE w > 10",
    ),
    "star": (
        "SELECT * FROM t",
        ["ADD COLUMN later INT DEFAULT 5", "RENAME COLUMN id TO number", "ALTER COLUMN v TYPE BIGINT"],
        "SELECT number, g, v, at, note FROM t",
    ),
    "named but not needed, and renamed": (
        "SELECT x, y FROM (SELECT id AS x, v AS y, upper(note) AS z FROM t)",
        ["RENAME COLUMN note TO remark", "ALTER COLUMN v TYPE BIGINT"],
        "SELECT id AS x, v AS y FROM t",
    ),
    "named but not needed, and dropped": (
        "SELECT x, y FROM (SELECT id AS x, v AS y, upper(note) AS z FROM t)",
        ["DROP COLUMN note", "ADD COLUMN note INT", "ALTER COLUMN v TYPE BIGINT"],
        "SELECT id AS x, v AS y FROM t",
    ),
    "in a view": (
        "SELECT g, sum(v) AS total FROM seen GROUP BY g",
        ["RENAME COLUMN v TO amount", "ALTER COLUMN amount TYPE BIGINT"],
        "SELECT g, sum(amount) AS total FROM t WHERE amount > 10 GROUP BY g",
    ),
}  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", _CASES)
def test_a_stream_table_is_rebuilt_after_its_source_was_renamed(tmp_path: Path, name: str) -> None:
    query, changes, now = _CASES[name]
    with connect(tmp_path / "w", settings=_OPEN) as tr:
        tr.sql(_TABLE)
        tr.sql(_ROWS)
        tr.sql("CREATE VIEW seen AS SELECT g, v FROM t WHERE v > 10")
        tr.sql(f"CREATE STREAM TABLE s AS {query}")
        for change in changes:
            if change.startswith("zone "):
                tr.spark.conf.set("spark.sql.session.timeZone", change.removeprefix("zone "))
            else:
                tr.sql(f"ALTER TABLE t {change}")
        report = tr.refresh("s")
        assert report.action == "REINITIALIZE", report
        assert rows(tr.table("s")) == rows(tr.sql(now))
        assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []
        tr.sql("DELETE FROM t WHERE id = 3" if "number" not in now else "DELETE FROM t WHERE number = 3")
        assert tr.refresh("s").action != "REINITIALIZE"
        assert rows(tr.table("s")) == rows(tr.sql(now))
        tr.sql("ALTER STREAM TABLE s SET (exact_floats = true)")  # another rebuild, by the same names
        assert rows(tr.table("s")) == rows(tr.sql(now))


def test_a_replaced_view_means_what_names_mean_now(tmp_path: Path) -> None:
    """Beside it the query itself still means what they meant when it was written."""
    with connect(tmp_path / "w", settings=_OPEN) as tr:
        tr.sql(_TABLE)
        tr.sql(_ROWS)
        tr.sql("CREATE VIEW seen AS SELECT id, v AS w FROM t")
        tr.sql("CREATE STREAM TABLE s AS SELECT t.id, t.v, seen.w FROM t JOIN seen ON seen.id = t.id")
        tr.sql("ALTER TABLE t RENAME COLUMN v TO amount")
        tr.sql("CREATE OR REPLACE VIEW seen AS SELECT id, amount + 1 AS w FROM t")
        for kind in ("BIGINT", "DECIMAL(20, 0)"):
            tr.refresh("s")
            assert rows(tr.table("s")) == rows(tr.sql("SELECT id, amount, amount + 1 FROM t")), kind
            assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []
            tr.sql("INSERT INTO t VALUES (9, 9, 9, NULL, NULL)")
            tr.refresh("s")
            assert rows(tr.table("s")) == rows(tr.sql("SELECT id, amount, amount + 1 FROM t"))
            if kind == "BIGINT":
                tr.sql("ALTER TABLE t ALTER COLUMN amount TYPE BIGINT")
                tr.sql("DELETE FROM t WHERE id = 9")


def test_two_sources_that_changed_names(tmp_path: Path) -> None:
    with connect(tmp_path / "w", settings=_OPEN) as tr:
        tr.sql("CREATE TABLE a AS SELECT 1 AS id, 10 AS x")
        tr.sql("CREATE TABLE b AS SELECT 1 AS id, 20 AS y")
        tr.sql("CREATE STREAM TABLE s AS SELECT a.x, b.y FROM a JOIN b ON a.id = b.id")
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            tr.sql(f"ALTER TABLE {old} RENAME TO {new}")
        tr.sql("ALTER TABLE b ALTER COLUMN x TYPE BIGINT")
        tr.sql("INSERT INTO b VALUES (1, 11)")
        tr.refresh("s")
        assert rows(tr.table("s")) == [(10, 20), (11, 20)]


def test_a_query_that_is_written_again_means_what_names_mean_now(tmp_path: Path) -> None:
    with connect(tmp_path / "w", settings=_OPEN) as tr:
        tr.sql("CREATE TABLE t AS SELECT 1 AS id, 10 AS v")
        tr.sql("CREATE STREAM TABLE s AS SELECT id, v FROM t")
        tr.sql("ALTER TABLE t RENAME COLUMN v TO old")
        with pytest.raises(ColumnNotFoundError):
            tr.sql("ALTER STREAM TABLE s AS SELECT id, v FROM t")
        tr.sql("ALTER TABLE t ADD COLUMN v INT DEFAULT 7")
        tr.sql("ALTER STREAM TABLE s AS SELECT id, v FROM t")
        assert rows(tr.table("s")) == [(1, 7)]


def test_names_of_one_time_zone_are_no_reason_to_rebuild(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql(_TABLE)
    tr.sql(_ROWS)
    tr.sql("CREATE STREAM TABLE s AS SELECT CAST(at AS DATE) AS day, count(*) AS n FROM t GROUP BY 1")
    for zone, action in (("Etc/UTC", "NO_DATA"), ("+00:00", "NO_DATA"), ("Asia/Tokyo", "REINITIALIZE")):
        tr.spark.conf.set("spark.sql.session.timeZone", zone)
        assert tr.refresh("s").action == action, zone


# --- a random walk ------------------------------------------------------------------------------------

_KINDS = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
_ZONES = ["UTC", "Etc/UTC", "Asia/Tokyo", "America/New_York"]


@dataclass
class World:
    """The sources as they are called by now: the walk knows them by what they were called first."""

    place: Path
    chance: random.Random
    tr: Trickle
    table: str = "t"
    columns: dict[str, str] = field(default_factory=lambda: {c: c for c in ("id", "g", "v", "at", "note")})
    kind: int = 0
    numbers: int = 100
    extra: int = 0
    queries: dict[str, str] = field(default_factory=dict)  # with {first name} for each column
    steps: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.steps.append(text)
        self.tr.sql(text)

    def now(self, query: str) -> str:
        names = {first: quote(n) for first, n in self.columns.items()}
        return query.format(t=quote(self.table), **names)

    def fresh(self) -> str:
        """A name that nobody has, often one that another column had."""
        names = [n for n in (*"abxy", "id", "g", "v", "at", "note", "q`r") if n not in self.columns.values()]
        return self.chance.choice(names)


_QUERIES = {
    "grouped": "SELECT {g} AS g, sum({v}) AS total, count(*) AS n FROM {t} GROUP BY {g}",
    "by_day": "SELECT CAST({at} AS DATE) AS day, count({id}) AS n FROM {t} GROUP BY CAST({at} AS DATE)",
    "plain": "SELECT {id} AS id, {v} AS v FROM {t} WHERE {v} > 3",
    "named": "SELECT x, y FROM (SELECT {id} AS x, {v} + 1 AS y, {note} AS z FROM {t})",
    "seen": "SELECT {id} AS id, {g} AS g FROM {t} WHERE {v} <= 50",
}


def _rename_column(w: World) -> None:
    first, new = w.chance.choice(list(w.columns)), w.fresh()
    w.say(f"ALTER TABLE {quote(w.table)} RENAME COLUMN {quote(w.columns[first])} TO {quote(new)}")
    w.columns[first] = new


def _rename_table(w: World) -> None:
    new = w.chance.choice([n for n in ("t", "t2", "other") if n != w.table])
    w.say(f"ALTER TABLE {quote(w.table)} RENAME TO {new}")
    w.table = new


def _widen(w: World) -> None:
    if w.kind + 1 < len(_KINDS):
        w.kind += 1
        w.say(f"ALTER TABLE {quote(w.table)} ALTER COLUMN {quote(w.columns['v'])} TYPE {_KINDS[w.kind]}")


def _other_zone(w: World) -> None:
    zone = w.chance.choice(_ZONES)
    w.steps.append(f"zone {zone}")
    w.tr.spark.conf.set("spark.sql.session.timeZone", zone)


def _add_column(w: World) -> None:
    w.extra += 1
    name = w.fresh()
    w.columns[f"extra{w.extra}"] = name
    w.say(f"ALTER TABLE {quote(w.table)} ADD COLUMN {quote(name)} INT DEFAULT {w.extra}")


def _drop_column(w: World) -> None:
    unused = [c for c in w.columns if c == "note" or c.startswith("extra")]
    if unused:
        w.say(f"ALTER TABLE {quote(w.table)} DROP COLUMN {quote(w.columns.pop(w.chance.choice(unused)))}")


def _replace_view(w: World) -> None:
    w.queries["by_view"] = "SELECT {id} AS id, {g} AS g FROM {t} WHERE {v} <= 40"
    w.say(f"CREATE OR REPLACE VIEW seen_view AS {w.now(w.queries['by_view'])}")
    w.steps.append("refresh by_view")  # from here on it knows what the new view means
    w.tr.refresh("by_view")


def _alter_stream(w: World) -> None:
    name = w.chance.choice(["grouped", "plain", "by_day"])
    w.say(f"ALTER STREAM TABLE {name} AS {w.now(_QUERIES[name])}")


def _reconnect(w: World) -> None:
    w.steps.append("reconnect")
    w.tr.close()
    w.tr = connect(w.place, settings=_OPEN)


def _write(w: World) -> None:
    w.numbers += 1
    values = {
        "id": w.numbers,
        "g": w.numbers % 3,
        "v": w.numbers % 100,
        "at": "TIMESTAMP '2026-01-31 20:00:00Z'",
    }
    columns = ", ".join(quote(w.columns[c]) for c in values)
    w.say(f"INSERT INTO {quote(w.table)} ({columns}) VALUES ({', '.join(str(v) for v in values.values())})")
    w.say(w.now("UPDATE {t} SET {v} = 50 - {v} WHERE {id} % 7 = " + str(w.numbers % 7) + " AND {v} < 50"))


_STEPS = [
    _rename_column, _rename_column, _rename_table, _widen, _other_zone, _other_zone, _add_column,
    _drop_column, _replace_view, _alter_stream, _reconnect, _write, _write,
]  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "length"), [(0, 8), *(pytest.param(n, 16, marks=pytest.mark.slow) for n in range(12))]
)
def test_a_random_walk_ends_exact(tmp_path: Path, seed: int, length: int) -> None:
    w = World(
        tmp_path / "w", random.Random(seed), connect(tmp_path / "w", settings=_OPEN), queries={**_QUERIES}
    )
    w.say("CREATE TABLE t (id INT PRIMARY KEY, g INT, v TINYINT, at TIMESTAMP, note STRING)")
    w.say(
        "INSERT INTO t SELECT id, id % 3, id % 100, timestamp_seconds(id * 3600), 'x' FROM range(90) AS r(id)"
    )
    for name, query in _QUERIES.items():
        w.say(f"CREATE STREAM TABLE {name} AS {w.now(query)}")
    w.say(f"CREATE VIEW seen_view AS {w.now(_QUERIES['seen'])}")
    w.say("CREATE STREAM TABLE by_view AS SELECT id, g FROM seen_view")
    w.queries["by_view"] = _QUERIES["seen"]
    try:
        for step in range(length):
            w.chance.choice(_STEPS)(w)
            if step % 4 == 3:
                w.steps.append("refresh")
                w.tr.refresh_all()
                for name, query in w.queries.items():
                    assert rows(w.tr.table(name)) == _expected(w, name, query), (name, w.steps)
    finally:
        w.tr.close()


def _expected(w: World, name: str, query: str) -> list[Row]:
    if name == "named":
        query = "SELECT {id} AS x, {v} + 1 AS y FROM {t}"  # its note may be dropped by now
    return rows(w.tr.sql(w.now(query)))


def test_a_column_that_is_needed_and_was_dropped_is_named(tmp_path: Path) -> None:
    with connect(tmp_path / "w", settings=_OPEN) as tr:
        tr.sql(_TABLE)
        tr.sql("CREATE STREAM TABLE s AS SELECT id, v FROM t")
        tr.sql("ALTER TABLE t RENAME COLUMN v TO w")
        tr.sql("ALTER TABLE t DROP COLUMN w")
        with pytest.raises(SourceLostError, match=r'"main\.t" has lost the column'):
            tr.refresh("s")
        with pytest.raises((ColumnNotFoundError, InvalidDefinitionError)):
            tr.sql("ALTER STREAM TABLE s AS SELECT id, v FROM t")
