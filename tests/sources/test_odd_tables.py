"""Tables of PostgreSQL that are not plain, names that are not plain, and addresses with a secret in them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import psycopg
import pytest

from spark_trickle.errors import SqlSyntaxError, TrickleError, UnsupportedError
from tests.postgres.world import ODD_NAMES
from tests.sources.conftest import DSN, Shop

MODES = ["trigger", "wal"]

# --- tables --------------------------------------------------------------------------------------

# Statements that make t and fill it, more that change it, and the query that its mirror must agree with.
TABLES: dict[str, tuple[list[str], list[str]]] = {
    "partitioned": (
        [
            "CREATE TABLE t (k int, a text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
            "CREATE TABLE low (a text, k int NOT NULL)",
            "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (100)",
            "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200)",
            "INSERT INTO t SELECT g, g::text FROM generate_series(0, 20) g",
        ],
        [
            "INSERT INTO high VALUES (150, 'by the leaf')",
            "UPDATE t SET k = k + 100 WHERE k = 3",
            "DELETE FROM low WHERE k < 2",
            "CREATE TABLE more PARTITION OF t FOR VALUES FROM (200) TO (300)",
            "INSERT INTO t VALUES (250, 'new')",
            "TRUNCATE high",
            "CREATE TABLE late (k int NOT NULL, a text)",
            "INSERT INTO late VALUES (301, 'was there before')",
            "ALTER TABLE t ATTACH PARTITION late FOR VALUES FROM (300) TO (400)",
            "ALTER TABLE t DETACH PARTITION low",
            "CREATE TABLE newer PARTITION OF t FOR VALUES FROM (400) TO (500)",
            "INSERT INTO t VALUES (401, 'new')",
            "DROP TABLE newer",
            "CREATE TABLE newest PARTITION OF t FOR VALUES FROM (500) TO (600) PARTITION BY LIST (k)",
            "CREATE TABLE leaf PARTITION OF newest DEFAULT",
            "INSERT INTO t VALUES (501, 'new')",
            "ALTER TABLE t DETACH PARTITION newest",
        ],
    ),
    "generated": (
        [
            "CREATE TABLE t (k int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED)",
            "INSERT INTO t VALUES (1, 10), (2, 20)",
        ],
        ["UPDATE t SET a = 11 WHERE k = 1", "INSERT INTO t VALUES (3, NULL)", "DELETE FROM t WHERE k = 2"],
    ),
    "identity": (
        [
            "CREATE TABLE t (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text, s serial)",
            "INSERT INTO t (a) VALUES ('one'), ('two')",
        ],
        ["INSERT INTO t (a) VALUES ('three')", "UPDATE t SET k = DEFAULT WHERE k = 1", "TRUNCATE t RESTART IDENTITY", "INSERT INTO t (a) VALUES ('one again')"],
    ),
    "a parent": (
        [
            "CREATE TABLE t (k int PRIMARY KEY, a text)",
            "CREATE TABLE child (b int) INHERITS (t)",
            "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
            "INSERT INTO child VALUES (7, 'only the child', 1)",
        ],
        ["UPDATE t SET a = a || '!'", "UPDATE child SET a = 'c'", "DELETE FROM t WHERE k IN (2, 7)"],
    ),
    "a child": (
        [
            "CREATE TABLE parent (k int, a text)",
            "CREATE TABLE t (b int, PRIMARY KEY (k)) INHERITS (parent)",
            "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)",
            "INSERT INTO parent VALUES (9, 'only the parent')",
        ],
        ["UPDATE parent SET a = a || '!'", "DELETE FROM parent WHERE k = 2", "INSERT INTO t VALUES (3, 'z', 3)"],
    ),
    "with row security": (
        [
            "CREATE TABLE t (k int PRIMARY KEY, a text)",
            "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY nobody ON t USING (false)",
        ],
        ["UPDATE t SET a = a || '!'", "DELETE FROM t WHERE k = 2"],
    ),
    "with enums": (
        [
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "CREATE DOMAIN feeling AS mood",
            "CREATE TABLE t (k int PRIMARY KEY, a mood, b feeling)",
            "INSERT INTO t VALUES (1, 'sad', 'glad'), (2, 'glad', 'sad')",
        ],
        [
            "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
            "DELETE FROM t WHERE k = 1",
            "ALTER TYPE mood ADD VALUE 'new'",
            "INSERT INTO t VALUES (3, NULL, 'new')",
            "ALTER TYPE mood RENAME VALUE 'new' TO 'old'",
        ],
    ),
    "with triggers of its own": (
        [
            "CREATE TABLE t (k int PRIMARY KEY, a text)",
            "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "NEW.a := upper(NEW.a); NEW.k := NEW.k + 10; RETURN NEW; END $$",
            "CREATE TRIGGER other BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION other()",
            "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        ],
        ["UPDATE t SET a = 'moved'", "INSERT INTO t VALUES (5, 'q') ON CONFLICT (k) DO NOTHING"],
    ),
}  # fmt: skip


@pytest.mark.one_in(9)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.shows("postgres", "partitions")
def test_tables_that_are_not_plain(shop: Shop, kind: str, mode: str) -> None:
    """After every statement the mirror holds what the table itself holds."""
    made, changes = TABLES[kind]
    query = "SELECT * FROM t" if kind == "partitioned" else "SELECT * FROM ONLY t"
    shop.run(*made)
    shop.attach(mode)
    shop.tr.create_mirror("t", "shop.public.t")
    for statement in changes:
        shop.check(query, "t")
        shop.run(statement)
        report = shop.tr.sync("shop")
        assert report.problems == {}
    shop.check(query, "t")


REFUSED: dict[str, tuple[list[str], str, str]] = {
    # statements, the name that is asked for, and what the answer must say
    "view": (["CREATE VIEW v AS SELECT 1 AS one"], "v", "view"),
    "materialized view": (["CREATE MATERIALIZED VIEW v AS SELECT 1 AS one"], "v", "materialized view"),
    "sequence": (["CREATE SEQUENCE v"], "v", "v"),
    "no columns": (["CREATE TABLE v ()"], "v", "no column"),
    "nothing but a virtual column": (["CREATE TABLE v (a int, b int GENERATED ALWAYS AS (a) VIRTUAL)", "ALTER TABLE v DROP a CASCADE", "ALTER TABLE v ADD c int GENERATED ALWAYS AS (1) VIRTUAL"], "v", "virtual"),
    "partition": (["CREATE TABLE p (k int) PARTITION BY LIST (k)", "CREATE TABLE v PARTITION OF p DEFAULT"], "v", "p"),
    "foreign table": (["CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER s FOREIGN DATA WRAPPER w", "CREATE FOREIGN TABLE v (a int) SERVER s"], "v", "foreign table"),
    "composite type": (["CREATE TYPE v AS (a int)"], "v", "v"),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_mirrored_is_refused(shop: Shop, kind: str, mode: str) -> None:
    statements, name, says = REFUSED[kind]
    shop.run(*statements)
    shop.attach(mode)
    try:
        with pytest.raises(TrickleError) as refused:
            shop.tr.create_mirror("here", f"shop.public.{name}")
    finally:
        shop.run("DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE")
    assert says in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.hint
    assert refused.value.code != "INTERNAL"
    assert shop.here("SHOW TABLES") == {}
    assert shop.tr.sync("shop").problems == {}


# --- names ---------------------------------------------------------------------------------------


def _here(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _there(*parts: str) -> str:
    return psycopg.sql.Identifier(*parts).as_string(None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", MODES)
def test_odd_names_in_every_statement(shop: Shop, mode: str) -> None:
    for name in ODD_NAMES:
        shop.run(
            f"CREATE SCHEMA {_there(name)}",
            f"CREATE TABLE {_there(name, name)} (id int PRIMARY KEY, {_there(name)} text)",
            f"INSERT INTO {_there(name, name)} VALUES (1, 'x')",
        )
    patterns = ", ".join(_there(n, n) for n in ODD_NAMES).replace("\\", "\\\\").replace("'", "\\'")
    shop.tr.sql(
        f"ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:{DSN}', cdc_mode '{mode}', tables '{patterns}')"
    )
    for n, name in enumerate(ODD_NAMES):
        shop.tr.sql(f"CREATE TABLE m{n} FROM SOURCE shop.{_here(name)}.{_here(name)}")
        shop.tr.sql(f"CREATE STREAM TABLE s{n} AS SELECT * FROM m{n}")
        shop.tr.sql(f"PUBLISH STREAM TABLE s{n} TO SOURCE shop AS {_here(name)}.{_here(name + '!')}")
        shop.run(f"UPDATE {_there(name, name)} SET {_there(name)} = 'y'")
    shop.tr.sql("SYNC SOURCE shop")
    for n, name in enumerate(ODD_NAMES):
        shop.tr.sql(f"REFRESH STREAM TABLE s{n}")
        assert shop.there(f"SELECT * FROM {_there(name, name + '!')}") == {("1", "'y'"): 1}, name
        shop.tr.sql(f"PUBLISH STREAM TABLE s{n} REPAIR")
        shop.tr.sql(f"RESYNC TABLE m{n}")
    assert all(f["ok"] for f in shop.tr.answer("check_cdc_health").dicts())
    assert {r["status"] for r in shop.tr.answer("source_status").dicts()} == {"ACTIVE"}
    assert [r["problem"] for r in shop.tr.answer("published_status").dicts()] == [""] * len(ODD_NAMES)
    for n in range(len(ODD_NAMES)):
        shop.tr.sql(f"UNPUBLISH STREAM TABLE s{n} DROP TABLE")
    shop.tr.sql("DETACH SOURCE shop")
    assert shop.world.rows("SELECT FROM pg_trigger WHERE NOT tgisinternal") == []


def test_a_source_has_an_odd_name_too(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    name = _here('we"ird.sh`op 😀')
    shop.tr.sql(f"ATTACH SOURCE {name} TYPE postgres OPTIONS (dsn 'env:{DSN}', cdc_mode 'wal')")
    shop.tr.sql(f"CREATE TABLE t FROM SOURCE {name}.public.t")
    shop.run("INSERT INTO t VALUES (2)")
    shop.tr.sql(f"SYNC SOURCE {name}")
    shop.check("SELECT * FROM t")
    shop.tr.sql(f"DETACH SOURCE {name}")


def test_double_quotes_are_texts_here(shop: Shop) -> None:
    """As in Spark; the error says how a name is quoted."""
    shop.run("CREATE TABLE t (id int)")
    shop.attach()
    shop.tr.create_mirror("t", "shop.public.t")
    shop.tr.sql("CREATE STREAM TABLE s AS SELECT id FROM t")
    for statement in (
        'PUBLISH STREAM TABLE s TO SOURCE shop AS "we""ird".t',
        'CREATE TABLE u FROM SOURCE shop."public".t',
    ):
        with pytest.raises(SqlSyntaxError) as refused:
            shop.tr.sql(statement)
        assert "`" in refused.value.hint


# --- secrets -------------------------------------------------------------------------------------

SECRET = "hunter2'; \\ %s {0} @:/"

QUESTIONS: dict[str, Callable[[Shop], object]] = {
    "sync": lambda shop: shop.tr.sync("shop"),
    "mirror": lambda shop: shop.tr.create_mirror("u", "shop.public.u"),
    "resync": lambda shop: shop.tr.sql("RESYNC TABLE t"),
    "publish": lambda shop: shop.tr.sql("PUBLISH STREAM TABLE s TO SOURCE shop AS public.s"),
    "detach": lambda shop: shop.tr.sql("DETACH SOURCE shop"),
    "attach": lambda shop: shop.tr.attach_source("other", dsn=f"env:{DSN}"),
}
TOLD = (
    "source_status",
    "wal_source_status",
    "check_cdc_health",
    "slot_health",
    "trigger_inventory",
    "alerts",
)


def _addresses(shop: Shop) -> dict[str, str]:
    right = psycopg.conninfo.conninfo_to_dict(shop.world.server.conninfo(shop.world.database))
    make = psycopg.conninfo.make_conninfo
    return {
        "wrong password": make(**{**right, "user": "careful", "password": SECRET}),
        "refused": make(host="127.0.0.1", port=1, user="careful", password=SECRET, dbname="x"),
        "no such host": make(host="no-such-host.invalid", user="careful", password=SECRET, dbname="x"),
        "no such database": make(**{**right, "dbname": "nothing", "password": SECRET}),
        "not an address": f"host=x password='{SECRET}",
        "a bad port": f"postgresql://careful:{SECRET}@localhost:port/x",
        "a bad option": f"host=localhost pasword=oops password='hunter2 plain' {SECRET[:7]}",
    }


def test_no_secret_leaks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shop.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int)")
    shop.attach()
    shop.tr.create_mirror("t", "shop.public.t")
    shop.tr.sql("CREATE STREAM TABLE s AS SELECT id FROM t")
    for what, address in _addresses(shop).items():
        monkeypatch.setenv(DSN, address)
        shop.tr._parts.links.close()
        if what == "wrong password" and _is_trusted(address):
            continue  # a server that asks for no password
        for name, ask in QUESTIONS.items():
            with pytest.raises(TrickleError) as refused:
                ask(shop)
            shown = f"{refused.value} {refused.value!r} {refused.value.hint} {refused.value.__cause__!r}"
            shown += f" {refused.value.__context__!r} {vars(refused.value)}"
            assert "hunter2" not in shown, (what, name)
        for function in TOLD:
            assert "hunter2" not in str(shop.tr.answer(function).rows), (what, function)
    assert "hunter2" not in caplog.text
    assert not any(b"hunter2" in f.read_bytes() for f in shop.place.rglob("*") if f.is_file())


def _is_trusted(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


def test_the_kind_of_a_view_is_named(shop: Shop) -> None:
    shop.run("CREATE VIEW v AS SELECT 1 AS one")
    shop.attach()
    with pytest.raises(UnsupportedError, match="a view"):
        shop.tr.create_mirror("v", "shop.public.v")
