"""INSERT in all its forms does the same at the driver and on the executors."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError, QueryError, TrickleError, TypeMismatchError
from tests.conftest import rows
from tests.spark.paths import KEYED, KEYLESS, Case, Lake, assert_untouched, cases, check, make_target, run

_TEN = [(12, "B", 200), (13, "C", 300), (16, "F", 600), (17, "G", None)]


@cases(
    Case("INSERT INTO {t} VALUES (6, 'f', 60), (7, 'g', 70)", (2, 0, 0), [*KEYED, (6, "f", 60), (7, "g", 70)]),
    Case("INSERT INTO {t} (v, id) VALUES ('f', 6), ('g', 7)", (2, 0, 0), [*KEYED, (6, "f", 7), (7, "g", 7)]),
    Case(
        "INSERT INTO {t} VALUES (6, DEFAULT, DEFAULT), (7, 'g', default)",
        (2, 0, 0),
        [*KEYED, (6, None, 7), (7, "g", 7)],
    ),
    Case("INSERT INTO {t} SELECT id + 10, v, n FROM s", (4, 0, 0), [*KEYED, *_TEN]),
    Case("INSERT INTO TABLE {t} (SELECT id + 10, v, n FROM s)", (4, 0, 0), [*KEYED, *_TEN]),
    Case("INSERT INTO {t} FROM s SELECT id + 10, v, n", (4, 0, 0), [*KEYED, *_TEN]),
    Case("INSERT INTO {t} SELECT id + 10, v, n FROM s_temp", (4, 0, 0), [*KEYED, *_TEN]),
    Case(
        "INSERT INTO {t} WITH c AS (SELECT id + 10 AS id, v, n FROM sv) SELECT * FROM c",
        (4, 0, 0),
        [*KEYED, *_TEN],
    ),
    Case(
        "INSERT INTO {t} SELECT id + 10, v, n FROM {t}",
        (5, 0, 0),
        KEYED + [(i + 10, v, n) for i, v, n in KEYED],
    ),
    Case(
        "INSERT INTO {t} BY NAME SELECT v, id + 10 AS ID FROM s",
        (4, 0, 0),
        KEYED + [(i, v, 7) for i, v, _ in _TEN],
    ),
    Case("INSERT INTO {k} SELECT a, b FROM {k}", (7, 0, 0), KEYLESS * 2),
    Case("INSERT INTO {k} TABLE d", (3, 0, 0), [*KEYLESS, (2, "p"), (2, "q"), (3, "r")]),
    Case("INSERT INTO {t} SELECT * FROM s WHERE id > 100", (0, 0, 0), KEYED),
    Case("INSERT INTO {t} SELECT * FROM s WHERE false", (0, 0, 0), KEYED),
    # what fits a column is converted to its type
    Case(
        "INSERT INTO {t} SELECT CAST(id + 10 AS BIGINT), id, CAST(n AS DECIMAL(5, 1)) FROM s",
        (4, 0, 0),
        KEYED + [(i, str(i - 10), n) for i, _, n in _TEN],
    ),
    Case(
        "INSERT OVERWRITE {t} SELECT * FROM s", (4, 0, 5), [(i - 10, v, n) for i, v, n in _TEN]
    ),
    Case(
        "INSERT OVERWRITE {t} SELECT id, upper(v), n FROM {t} WHERE id > 2",
        (3, 0, 5),
        [(3, "C", 30), (4, "D", None), (5, None, 50)],
    ),
    Case("INSERT OVERWRITE TABLE {t} (id) SELECT id FROM s WHERE id < 4", (2, 0, 5), [(2, None, 7), (3, None, 7)]),
    Case("INSERT OVERWRITE {t} SELECT * FROM s WHERE false", (0, 0, 5), []),
    Case("INSERT OVERWRITE {k} SELECT * FROM {k}", (7, 0, 7), KEYLESS),
)  # fmt: skip
def test_insert(lake: Lake, case: Case) -> None:
    check(lake, case)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("INSERT INTO {t} VALUES (6, 'f')", InvalidDefinitionError),
        ("INSERT INTO {t} (id, v) VALUES (6, 'f', 1)", InvalidDefinitionError),
        ("INSERT INTO {t} (id, ID) VALUES (6, 7)", InvalidDefinitionError),
        ("INSERT INTO {t} (id, nothing) VALUES (6, 7)", TrickleError),
        ("INSERT INTO {t} BY NAME SELECT id + 10 AS id, 1 AS other FROM s", TrickleError),
        ("INSERT INTO {t} SELECT v, v, n FROM s", TypeMismatchError),
        ("INSERT INTO {t} SELECT id + 10, v, date'2026-01-01' FROM s", TypeMismatchError),
        ("INSERT INTO {t} SELECT id + 3000000000, v, n FROM s", QueryError),
    ],
)
def test_what_does_not_fit_changes_nothing(lake: Lake, sql: str, error: type[TrickleError]) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(error):
        run(lake, sql, name)
    assert_untouched(lake, "{t}", name, snapshot)


def test_an_overflow_is_refused_also_where_the_session_would_wrap_it(lake: Lake) -> None:
    """Store assignment is ANSI whatever the session says: no value changes silently on its way in."""
    name = make_target(lake, "{k}")
    snapshot = lake.setup.snapshot
    lake.tr.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(TrickleError):
            run(lake, "INSERT INTO {k} SELECT id + 3000000000, v FROM s", name)
        with pytest.raises(TrickleError):
            run(lake, "UPDATE {k} SET a = 3000000000", name)
    finally:
        lake.tr.spark.conf.set("spark.sql.ansi.enabled", "true")
    assert_untouched(lake, "{k}", name, snapshot)


def test_append_finds_columns_by_name(lake: Lake) -> None:
    name = make_target(lake, "{t}")
    frame = lake.tr.spark.sql("SELECT * FROM VALUES ('z', 26L), ('y', 25L), ('x', 24L) AS x(V, id)")
    assert lake.tr.append(name, frame).rows_inserted == 3
    added = [(26, "z", 7), (25, "y", 7), (24, "x", 7)]
    assert rows(lake.tr.table(name)) == sorted(KEYED + added, key=repr)
