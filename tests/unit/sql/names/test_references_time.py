"""VERSION AS OF, TIMESTAMP AS OF and CHANGES: what belongs to the clause, and what it says."""

from __future__ import annotations

import pytest

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.names.references import ChangesBetween, TimestampAsOf, VersionAsOf, find_references
from tests.unit.sql.marked import answer, bug, expected, question

INTERVAL = "an INTERVAL is thought to have exactly two words after it"
OPERATOR = "only + and − join the values of a moment"
SYSTEM = "SYSTEM_VERSION and SYSTEM_TIME are not known in CHANGES"

VERSIONS = [
    "SELECT * FROM «t VERSION AS OF 3»·",
    "SELECT * FROM «t FOR VERSION AS OF 3» x",
    "SELECT * FROM «t FOR SYSTEM_VERSION AS OF '3'» AS x",
    "SELECT * FROM «t SYSTEM_VERSION AS OF 3»· WHERE a = 1",
    'SELECT * FROM «t VERSION AS OF "5"»·',
    "SELECT * FROM «s.t VERSION AS OF 3»· WHERE t.a = 1",
    "SELECT * FROM «t VERSION AS OF 3»·, «u VERSION AS OF 4»·, «v»·",
    "SELECT * FROM «t VERSION AS OF 1»· JOIN «t VERSION AS OF 2» x USING (a)",
    "SELECT * FROM («t VERSION AS OF 3»·) JOIN «u»·",
    "SELECT * FROM «t VERSION AS OF 5» AS x(a, b)",
    "SELECT * FROM «t VERSION AS OF 3» TABLESAMPLE (10 ROWS)·",
    "SELECT (SELECT count(*) FROM «t VERSION AS OF 1»·) - count(*) FROM «t»·",
    "FROM «t VERSION AS OF 1»· |> EXCEPT TABLE «u»",
]

MOMENTS = [
    "SELECT * FROM «t TIMESTAMP AS OF '2026-01-01'»·",
    "SELECT * FROM «t FOR TIMESTAMP AS OF TIMESTAMP '2026-01-01 00:00:00'» x, «u»·",
    "SELECT * FROM «t FOR SYSTEM_TIME AS OF current_timestamp()»·",
    "SELECT * FROM «t TIMESTAMP AS OF DATE'2026-01-01'»· WHERE a = 1",
    "SELECT * FROM «t TIMESTAMP AS OF CAST('2026-01-01' AS DATE)»· ORDER BY 1",
    "SELECT * FROM «t TIMESTAMP AS OF date_sub(current_date(), 1)»· JOIN «u»· ON true",
    "SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL 1 HOUR»·",
    "SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1' HOUR» AS x",
    "SELECT * FROM «t TIMESTAMP AS OF (now() - INTERVAL 1 DAY)»· WHERE b",
    "SELECT * FROM (SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL 1 HOUR»·) JOIN «u»·",
    "SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 hour'»·",
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 hour'»· WHERE a = 1", reason=INTERVAL),
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 hour'» AS x", reason=INTERVAL),
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 hour'»· JOIN «u»·", reason=INTERVAL),
    bug("SELECT * FROM (SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 hour'»·)", reason=INTERVAL),
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL '1 02:00' DAY TO MINUTE» x", reason=INTERVAL),
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - INTERVAL 1 DAY 2 HOURS» x", reason=INTERVAL),
    bug("SELECT * FROM «t TIMESTAMP AS OF '2026-01-01'::timestamp»·", reason=OPERATOR),
    bug("SELECT * FROM «t TIMESTAMP AS OF now() - 2 * make_interval(1)»·", reason=OPERATOR),
    bug(
        "SELECT * FROM «t TIMESTAMP AS OF timestamp_ntz'2026-01-01'» x",
        reason="only TIMESTAMP and DATE are known to go before a text",
    ),
]

CHANGES = [
    "SELECT * FROM «t CHANGES FROM VERSION 1»·",
    "SELECT * FROM «t CHANGES FROM VERSION 1 TO VERSION 5»· WHERE a = 1",
    "SELECT * FROM «t CHANGES FROM VERSION 1 INCLUSIVE TO VERSION 5 EXCLUSIVE» x",
    "SELECT * FROM «s.t CHANGES FROM VERSION '1' EXCLUSIVE TO VERSION '5' INCLUSIVE» AS x JOIN «u»·",
    "SELECT * FROM «t CHANGES FROM TIMESTAMP '2026-01-01' TO TIMESTAMP '2026-02-01'» x",
    "SELECT * FROM «t CHANGES FROM TIMESTAMP TIMESTAMP '2026-01-01'»·",
    "SELECT a, y FROM «t CHANGES FROM VERSION 1 TO VERSION 2»·, «u»·",
    "SELECT * FROM (SELECT * FROM «t CHANGES FROM VERSION 1»·) x",
    bug("SELECT * FROM «t CHANGES FROM SYSTEM_VERSION 1 TO SYSTEM_VERSION 2» x", reason=SYSTEM),
    bug("SELECT * FROM «t CHANGES FROM SYSTEM_TIME '2026-01-01' TO TIMESTAMP '2026-01-02'»·", reason=SYSTEM),
]


@pytest.mark.parametrize("marked", VERSIONS + MOMENTS + CHANGES, ids=question)
def test_a_clause_of_time_goes_with_its_table(marked: str) -> None:
    assert answer(marked) == expected(marked)


MEANINGS = [
    ("t VERSION AS OF 3", VersionAsOf("3")),
    ("t FOR SYSTEM_VERSION AS OF '3'", VersionAsOf("'3'")),
    ("t TIMESTAMP AS OF now() - INTERVAL 1 HOUR", TimestampAsOf("now() - INTERVAL 1 HOUR")),
    ("t FOR SYSTEM_TIME AS OF '2026-01-01'", TimestampAsOf("'2026-01-01'")),
    ("t CHANGES FROM VERSION 1", ChangesBetween("1", None, False, False, True)),
    ("t CHANGES FROM VERSION 1 TO VERSION 5", ChangesBetween("1", "5", False, False, True)),
    (
        "t CHANGES FROM VERSION 1 INCLUSIVE TO VERSION 5 EXCLUSIVE",
        ChangesBetween("1", "5", False, True, False),
    ),
    (
        "t CHANGES FROM TIMESTAMP '2026-01-01' TO TIMESTAMP now() INCLUSIVE",
        ChangesBetween("'2026-01-01'", "now()", True, False, True),
    ),
    ("t", None),
    ("t AS version", None),
]


@pytest.mark.parametrize(("relation", "meaning"), MEANINGS)
def test_what_a_clause_of_time_says(relation: str, meaning: object) -> None:
    (found,) = find_references(f"SELECT * FROM {relation}")
    assert found.at == meaning
    assert found.parts == ("t",)


FUNCTIONS = [
    ("trickle.snapshots()", ("trickle", "snapshots"), ()),
    ("trickle.changes('s.t', 3, 9)", ("trickle", "changes"), ("'s.t'", "3", "9")),
    ("trickle.changes('a, b', f(1, 2), (3))", ("trickle", "changes"), ("'a, b'", "f(1, 2)", "(3)")),
]


@pytest.mark.parametrize(("call", "parts", "arguments"), FUNCTIONS)
def test_arguments_of_our_table_functions(
    call: str, parts: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    (found,) = find_references(f"SELECT * FROM {call} AS x")
    assert (found.parts, found.arguments, found.is_function) == (parts, arguments, True)


BROKEN = [
    ("SELECT * FROM t CHANGES FROM 3", 1, 30),
    ("SELECT *\nFROM t CHANGES FROM VERSION 1 TO TIMESTAMP '2026-01-01'", 2, 34),
    ("SELECT * FROM t CHANGES FROM VERSION", 1, 30),
    ("SELECT * FROM t VERSION AS OF", 1, 28),
    ("SELECT * FROM t CHANGES FROM VERSION 1 TO", 1, 40),
]


@pytest.mark.parametrize(("sql", "line", "column"), BROKEN)
def test_a_broken_clause_of_time_is_refused_at_its_place(sql: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        find_references(sql)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.hint
