"""Statements that roll dice do so once: content, counts and feed tell the same story."""

from __future__ import annotations

import pytest

from tests.conftest import rows
from tests.spark.paths import KEYED, KEYLESS, Lake, difference, make_target, net_feed, run


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE {t} SET v = uuid()",
        "UPDATE {t} SET id = id + CAST(rand() * 100 AS INT) * 10, v = uuid()",
        "INSERT INTO {k} SELECT id, uuid() FROM s",
        "INSERT OVERWRITE {k} SELECT a, uuid() FROM {k} WHERE rand() < 0.7",
        "DELETE FROM {k} WHERE rand() < 0.5",
        "UPDATE {k} SET b = 'z' WHERE rand() < 0.5",
        "MERGE INTO {k} x USING s ON x.a = s.id WHEN MATCHED THEN UPDATE SET b = string(CAST(rand() * 2 AS INT))",
        "MERGE INTO {t} x USING s ON x.id = s.id WHEN MATCHED AND rand() < 0.5 THEN UPDATE SET v = 'z', n = 1 "
        "WHEN NOT MATCHED AND rand() < 0.5 THEN INSERT (id, v) VALUES (s.id, 'new')",
        "MERGE INTO {t} x USING (SELECT * FROM s WHERE rand() < 0.5) r ON x.id = r.id "
        "WHEN MATCHED THEN UPDATE SET v = uuid() WHEN NOT MATCHED THEN INSERT (id, v) VALUES (r.id, uuid()) "
        "WHEN NOT MATCHED BY SOURCE AND x.id > 1 THEN DELETE",
    ],
)
def test_chance_is_asked_once(lake: Lake, sql: str) -> None:
    target, initial = ("{t}", KEYED) if "{t}" in sql else ("{k}", KEYLESS)
    name = make_target(lake, target)
    before = lake.setup.snapshot
    done = run(lake, sql, name)
    after = rows(lake.tr.table(name))
    assert after == rows(lake.setup.table(name))
    assert len(after) == len(initial) + done.rows_inserted - done.rows_deleted
    assert net_feed(lake.tr, name, before) == difference(after, initial)
    changed = sum(weight for weight in difference(after, initial).values() if weight > 0)
    assert changed == done.rows_inserted + done.rows_updated
