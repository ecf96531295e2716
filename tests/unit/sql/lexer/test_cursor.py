"""The vocabulary of the parsers: passing words, cutting texts at the right depth, failing at a place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.lexer.cursor import Cursor
from tests.unit.sql.marked import bug

END = "END closes a bracket, also where it is the name of a column"

UNTIL = [
    ("a + 1 , b", (",",), "a + 1", ","),
    ("f(a, b), c", (",",), "f(a, b)", ","),
    ("m[a, b] , c", (",",), "m[a, b]", ","),
    ("f(g(a, (b)), c) WHERE d", ("WHERE",), "f(g(a, (b)), c)", "WHERE"),
    ("(SELECT a FROM t WHERE b) WHERE c", ("WHERE",), "(SELECT a FROM t WHERE b)", "WHERE"),
    ("CASE WHEN a THEN b END WHEN c", ("WHEN",), "CASE WHEN a THEN b END", "WHEN"),
    (
        "CASE WHEN CASE WHEN a THEN b END THEN c END, d",
        (",",),
        "CASE WHEN CASE WHEN a THEN b END THEN c END",
        ",",
    ),
    ("f(CASE WHEN a THEN b END, c), d", (",",), "f(CASE WHEN a THEN b END, c)", ","),
    ("'a, b' || \"c, d\", e", (",",), "'a, b' || \"c, d\"", ","),
    ("`a,b`, c", (",",), "`a,b`", ","),
    ("a /* , */ + b, c", (",",), "a /* , */ + b", ","),
    ("a b c", (",",), "a b c", ""),
    (", a", (",",), "", ","),
    ("a) b", (",",), "a", ")"),
    ("a where b", ("WHERE",), "a", "WHERE"),
    ("end, b", (",",), "end", ","),
    ("t.end, b", (",",), "t.end", ","),
    bug("f(end, start), b", (",",), "f(end, start)", ",", reason=END),
    bug("(end), b", (",",), "(end)", ",", reason=END),
    bug("t.case, b", (",",), "t.case", ",", reason="CASE opens a depth, also as the name of a column"),
]


@pytest.mark.parametrize(("sql", "stops", "text", "stopped_at"), UNTIL)
def test_text_up_to_a_word(sql: str, stops: tuple[str, ...], text: str, stopped_at: str) -> None:
    cursor = Cursor(sql)
    assert cursor.read_until(*stops) == text
    assert cursor.peek() == stopped_at


BRACKETED = [
    ("()", []),
    ("(a)", ["a"]),
    ("(a, b + 1)", ["a", "b + 1"]),
    (
        "(f(a, b), (c, d), 'e, f', CASE WHEN g THEN h END)",
        ["f(a, b)", "(c, d)", "'e, f'", "CASE WHEN g THEN h END"],
    ),
    ("( a -- x, y\n , b )", ["a", "b"]),
    ("((SELECT a, b FROM t), [c, d])", ["(SELECT a, b FROM t)", "[c, d]"]),
]


@pytest.mark.parametrize(("sql", "parts"), BRACKETED)
def test_parts_in_brackets(sql: str, parts: list[str]) -> None:
    cursor = Cursor(sql)
    assert cursor.read_brackets() == parts
    assert cursor.done


def test_names() -> None:
    cursor = Cursor("a . `b c`.d (e, `f,g`) 'text' rest of it;")
    assert cursor.read_name() == ("a", "b c", "d")
    assert cursor.read_names_in_brackets() == ("e", "f,g")
    assert cursor.read_string() == "text"
    assert cursor.read_rest() == "rest of it"
    cursor.expect_end()


def test_keywords_are_passed_in_any_case_but_not_when_quoted() -> None:
    cursor = Cursor("create `table` if NOT exists")
    assert cursor.accept("CREATE")
    assert not cursor.accept("TABLE")
    assert cursor.read_identifier() == "table"
    assert not cursor.accept("IF", "EXISTS")
    assert cursor.accept("IF", "NOT", "EXISTS")
    assert cursor.done
    assert cursor.peek() == ""


FAILURES: list[tuple[str, Callable[[Cursor], object], str, int, int]] = [
    ("a b", lambda c: c.expect("X"), "expected X, found a", 1, 1),
    ("a\n  b", lambda c: (c.read_word(), c.expect("X", "Y")), "expected X Y, found b", 2, 3),
    ("a", lambda c: (c.read_word(), c.expect("X")), "expected X at the end", 1, 2),
    ("'a'", lambda c: c.read_identifier(), "expected a name, found 'a'", 1, 1),
    ("a.", lambda c: c.read_name(), "expected a name at the end", 1, 3),
    ("a.5", lambda c: c.read_name(), "expected a name, found 5", 1, 3),
    ("a", lambda c: c.read_string(), "expected a string in quotes, found a", 1, 1),
    ("(a b)", lambda c: c.read_names_in_brackets(), "expected ), found b", 1, 4),
    ("(a", lambda c: c.read_brackets(), "expected ) or a comma at the end", 1, 3),
    (
        "a `b c`",
        lambda c: (c.read_word(), c.expect_end()),
        "unexpected text after the statement, found `b c`",
        1,
        3,
    ),
    ("a", lambda c: (c.read_word(), c.read_word()), "the statement ends too early", 1, 2),
]


@pytest.mark.parametrize(("sql", "action", "detail", "line", "column"), FAILURES)
def test_failures_say_where(
    sql: str, action: Callable[[Cursor], object], detail: str, line: int, column: int
) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        action(Cursor(sql))
    error = caught.value
    assert error.detail.startswith(detail)
    assert (error.line, error.column) == (line, column)
    assert f"line {line}, column {column}" in error.message


@pytest.mark.parametrize("sql", ["DROP `a b`", "DROP 'a'"])
def test_the_end_of_a_statement_is_after_the_last_quote(sql: str) -> None:
    cursor = Cursor(sql)
    cursor.read_rest()
    with pytest.raises(SqlSyntaxError) as caught:
        cursor.expect("X")
    assert caught.value.column == len(sql) + 1


@pytest.mark.parametrize("sql", ["", "  \n", ";", ";;", "-- nothing", "/* nothing */ ;"])
def test_an_empty_statement_is_refused(sql: str) -> None:
    with pytest.raises(SqlSyntaxError, match="the statement is empty") as caught:
        Cursor(sql)
    assert caught.value.hint == "Write a statement, for example SELECT 1."


@pytest.mark.parametrize(
    ("sql", "line", "column"), [("a; b", 1, 2), ("a\n;\nb", 2, 1), ("';' ; `;`", 1, 5), (";a", 1, 1)]
)
def test_two_statements_are_refused(sql: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match="more than one statement") as caught:
        Cursor(sql)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("sql", ["a b;", "a b ; ;", "a b -- ;", "a b;\n-- bye"])
def test_a_semicolon_at_the_end_is_no_word(sql: str) -> None:
    assert [w.text for w in Cursor(sql).words] == ["a", "b"]
