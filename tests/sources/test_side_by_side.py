"""A first copy that executors read: up to the driver, which is not here, and from its texts on."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError, SourceSetupError
from spark_trickle.sources.landing import land_frame
from spark_trickle.sources.mirrored import map_mirror_columns
from spark_trickle.sources.postgres.copy import open_snapshot
from spark_trickle.sources.postgres.discover import describe_tables
from spark_trickle.sources.postgres.parallel import plan_shared_read
from spark_trickle.sources.side_by_side import FromTexts
from spark_trickle.spark.jdbc import convert_rows, require_driver
from spark_trickle.txn.work import begin_work
from tests.sources.conftest import Shop

TABLE = [
    "CREATE TABLE t (id int PRIMARY KEY, a text, b numeric(12, 2), c timestamptz, d text[], e bytea, f float8)",
    "INSERT INTO t SELECT g, 'text ' || g, g * 0.5, timestamptz '2024-01-01Z' + g * interval '1 hour', "
    "ARRAY['x', NULL, g::text], '\\xff00', g / 3.0 FROM generate_series(1, 2000) g",
    "INSERT INTO t (id) VALUES (0)",
]


@pytest.mark.parametrize("mode", ["trigger", "wal"])
def test_a_driver_that_is_missing_is_told(shop: Shop, mode: str) -> None:
    shop.run(*TABLE)
    shop.attach(mode, copy="jdbc")
    with pytest.raises(SourceSetupError, match=r"org\.postgresql\.Driver") as refused:
        shop.tr.create_mirror("t", "shop.public.t")
    assert "spark.jars.packages" in refused.value.hint
    assert shop.here("SHOW TABLES") == {}
    assert shop.tr.sync("shop").problems == {}  # nothing is left that would be tried again


def test_a_driver_that_is_there_is_found(shop: Shop) -> None:
    """Spark brings one for a database of its own."""
    require_driver(shop.tr.spark, "org.apache.derby.jdbc.EmbeddedDriver", "none")


def test_there_are_two_ways_to_copy(shop: Shop) -> None:
    with pytest.raises(InvalidDefinitionError, match="fast"):
        shop.attach(copy="fast")


def test_texts_become_what_a_copy_would_bring(shop: Shop) -> None:
    """What the driver would do is done by psycopg: each query of its own, at the exported moment."""
    shop.run(*TABLE)
    shop.attach()
    shop.tr.create_mirror("t", "shop.public.t")
    work = begin_work(shop.tr._connection.place)
    table = work.catalog.table(("t",), "main")
    assert table.mirror is not None
    connection = shop.world.connect()
    (remote,) = describe_tables(connection, [table.mirror.oid])
    columns = map_mirror_columns(table, remote)
    with open_snapshot(connection, [remote]):
        read = plan_shared_read(connection, remote, columns, 3)
        assert len(read.queries) > 3
        task = shop.world.application()
        with task.transaction():
            task.execute(read.setup)
            texts = [row for query in read.queries for row in task.execute(query).fetchall()]
    schema = ", ".join(f"c{n} STRING" for n in range(len(columns)))
    frame = convert_rows(shop.tr.spark.createDataFrame(texts, schema), table, FromTexts(table, columns))
    before = shop.here("SELECT * FROM t")
    assert land_frame(work, table, frame).inserted == 2001
    work.commit("once more")
    assert shop.here("SELECT * FROM t") == before + before
