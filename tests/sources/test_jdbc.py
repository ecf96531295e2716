"""A first copy that Spark's executors read side by side, with PostgreSQL's own JDBC driver and over TCP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fetched import KEPT, fetched
from tests.postgres.server import new_server
from tests.sources.conftest import DSN
from tests.sources.test_side_by_side import TABLE

# In a process of its own: the driver must be there when Spark starts. Tasks of few pages, to have several.
_BOTH_WAYS = """
import os, sys
import psycopg
from pyspark.sql import SparkSession
import spark_trickle
from spark_trickle.sources import side_by_side

folder, jar, mode = sys.argv[1:]
side_by_side._PAGES = 3
spark = SparkSession.builder.master("local[2]").config("spark.jars", jar).getOrCreate()
with spark_trickle.connect(folder, spark=spark) as tr, psycopg.connect(os.environ["SHOP_DSN"]) as shop:
    def rows(table):
        return sorted(map(str, tr.sql(f"SELECT * FROM {table}").collect()))

    tr.attach_source("shop", dsn="env:SHOP_DSN", cdc_mode=mode)
    tr.create_mirror("direct", "shop.public.t")
    tr.sql("DETACH SOURCE shop")
    tr.attach_source("shop", dsn="env:SHOP_DSN", cdc_mode=mode, copy="jdbc")
    tr.create_mirror("jdbc", "shop.public.t")
    assert len(rows("jdbc")) == 2001 and rows("jdbc") == rows("direct")
    shop.execute("UPDATE t SET a = 'moved' WHERE id < 3")
    shop.commit()
    tr.sync("shop")
    assert tr.sql("SELECT count(*) FROM jdbc WHERE a = 'moved'").first()[0] == 3 and len(rows("jdbc")) == 2001
"""


@pytest.fixture(scope="module")
def jar() -> str:
    wanted = ("libpostgresql-jdbc-java", "usr/share/java/postgresql.jar")
    return fetched("from-debian.sh", KEPT / "jdbc", *wanted)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """A server that listens on a port, for a user with a password."""
    server = new_server()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with server.connect() as admin:
        admin.execute("CREATE ROLE clerk SUPERUSER LOGIN PASSWORD 'it''s %41 secret'")
        admin.execute("ALTER SYSTEM SET listen_addresses = '127.0.0.1'")
        admin.execute(f"ALTER SYSTEM SET port = {port}")
    with (server.home / "data" / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 127.0.0.1/32 scram-sha-256\n")
    server.stop()
    server.start()
    yield psycopg.conninfo.make_conninfo(
        host="127.0.0.1", port=port, dbname="postgres", user="clerk", password="it's %41 secret"
    )
    server.remove()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["trigger", "wal"])
def test_executors_bring_what_a_direct_copy_brings(jar: str, dsn: str, mode: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as shop:
        shop.execute("DROP TABLE IF EXISTS t")
        for statement in TABLE:
            shop.execute(statement)
    done = subprocess.run(
        [sys.executable, "-c", _BOTH_WAYS, str(tmp_path / "warehouse"), jar, mode],
        env={**os.environ, DSN: dsn, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "%41 secret" not in done.stdout + done.stderr
