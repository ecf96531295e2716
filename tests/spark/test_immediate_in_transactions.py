"""A transaction sees what follows from it in IMMEDIATE stream tables, before it is committed."""

from __future__ import annotations

import pytest

from spark_trickle.errors import QueryError
from spark_trickle.session import Trickle
from tests.conftest import rows


@pytest.fixture
def shop(tr_sqlite: Trickle) -> Trickle:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    tr.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    tr.sql(
        "CREATE STREAM TABLE total REFRESH MODE IMMEDIATE AS SELECT sum(100 / v) AS s, count(*) AS n FROM t"
    )
    tr.sql("CREATE STREAM TABLE doubled REFRESH MODE IMMEDIATE AS SELECT n * 2 AS n FROM total")
    tr.sql("CREATE STREAM TABLE later AS SELECT count(*) AS n FROM t")
    tr.sql("CREATE VIEW seen AS SELECT n + 1 AS n FROM total")
    tr.sql("CREATE TABLE log (n BIGINT)")
    return tr


def test_every_statement_sees_what_follows_from_those_before_it(shop: Trickle) -> None:
    tr = shop

    def counts() -> list[int]:
        return [rows(tr.sql(f"SELECT n FROM {name}"))[0][0] for name in ("total", "doubled", "seen", "later")]

    with tr.transaction():
        assert counts() == [2, 4, 3, 2]
        tr.sql("INSERT INTO t VALUES (3, 50), (4, 25)")
        assert counts() == [4, 8, 5, 2]  # the last one waits for its refresh
        assert rows(tr.sql("SELECT n FROM total WHERE n > 0")) == [(4,)]
        tr.sql("INSERT INTO log SELECT n FROM total")
        tr.sql("DELETE FROM t WHERE id IN (1, 3)")
        assert counts() == [2, 4, 3, 2]
        assert rows(tr.table("total")) == [(5.0 + 4.0, 2)]
        tr.sql("UPDATE t SET v = 50 WHERE id = 4")
        tr.sql("INSERT INTO log SELECT max(n) FROM doubled")
        assert rows(tr.table("total")) == [(5.0 + 2.0, 2)]
    assert counts() == [2, 4, 3, 2]
    assert rows(tr.table("total")) == [(7.0, 2)]
    assert rows(tr.table("log")) == [(4,), (4,)]
    for name in ("total", "doubled"):
        assert rows(tr.sql(f"SELECT * FROM trickle.audit('{name}')")) == []


def test_what_was_seen_is_gone_after_a_rollback(shop: Trickle) -> None:
    tr = shop
    before = tr.snapshot
    tr.sql("BEGIN")
    tr.sql("DELETE FROM t")
    assert rows(tr.sql("SELECT n FROM total")) == [(0,)]
    tr.sql("ROLLBACK")
    assert rows(tr.sql("SELECT n FROM total")) == [(2,)]
    assert tr.snapshot == before


def test_a_query_that_cannot_follow_names_the_stream_table_and_the_transaction_goes_on(shop: Trickle) -> None:
    tr = shop
    with tr.transaction():
        tr.sql("INSERT INTO t VALUES (3, 0)")
        with pytest.raises(QueryError, match="IMMEDIATE stream table"):
            tr.sql("SELECT * FROM total")
        assert rows(tr.sql("SELECT count(*) FROM t")) == [(3,)]  # who does not read it need not care
        tr.sql("DELETE FROM t WHERE id = 3")
        assert rows(tr.sql("SELECT n FROM total")) == [(2,)]
    assert rows(tr.table("total")) == [(15.0, 2)]
