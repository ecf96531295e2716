"""Many deleted keys are looked up in a bitmap: the rows are the same as with a join."""

from __future__ import annotations

import pytest

from spark_trickle.dml import work
from spark_trickle.session import Trickle, connect
from tests.conftest import rows


@pytest.mark.parametrize(("kind", "start"), [("BIGINT", -70), ("INT", 0), ("TINYINT", 63)])
def test_rows_are_the_same(kind: str, start: int, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(f"{tmp_path}/w", settings={"local_tail_rows": 0, "auto_compact": False}) as tr:
        tr.sql(f"CREATE TABLE t (id {kind}, v INT, PRIMARY KEY (id))")
        tr.sql(f"INSERT INTO t SELECT CAST(id + {start} AS {kind}), 0 FROM range(64)")
        tr.sql("DELETE FROM t WHERE id % 5 = 0")
        tr.sql("UPDATE t SET v = 1, id = id WHERE id % 3 = 0")
        tr.sql(
            f"INSERT INTO t VALUES ({max(start, 0)}, 7)" if start % 5 == 0 else "DELETE FROM t WHERE id = 64"
        )
        expected = rows(tr.table("t"))
        assert "shiftright" not in _plan(tr)
        monkeypatch.setattr(work, "_MANY_KEYS", 1)
        assert "shiftright" in _plan(tr)
        assert rows(tr.table("t")) == expected
        assert rows(tr.sql("SELECT count(*), sum(id), sum(v) FROM t")) == [
            (len(expected), sum(r[0] for r in expected), sum(r[1] for r in expected))
        ]


def _plan(tr: Trickle) -> str:
    tr.table("t").createOrReplaceTempView("many_deleted_keys")
    return "\n".join(r[0] for r in tr.spark.sql("EXPLAIN EXTENDED SELECT * FROM many_deleted_keys").collect())
