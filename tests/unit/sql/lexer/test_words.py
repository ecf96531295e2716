"""Any text is cut into words whose places are right, so that pieces of it can be cut out unchanged."""

from __future__ import annotations

import re

import pytest

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.lexer.words import WordKind, quote, quote_literal, split_words
from tests.unit.sql.marked import bug

NAME, QUOTED, STRING, NUMBER, SYMBOL = (
    WordKind.NAME,
    WordKind.QUOTED,
    WordKind.STRING,
    WordKind.NUMBER,
    WordKind.SYMBOL,
)

SPLIT = [
    ("", []),
    ("-- only a comment", []),
    ("a b", ["a", "b"]),
    ("GROUP BY x ORDER   BY\n y", ["GROUP", "BY", "x", "ORDER", "BY", "y"]),
    ("IS NOT DISTINCT FROM", ["IS", "NOT", "DISTINCT", "FROM"]),
    ("a.b . c", ["a", ".", "b", ".", "c"]),
    ("f(a,b)[0]", ["f", "(", "a", ",", "b", ")", "[", "0", "]"]),
    ("a<=>b c->d e=>f", ["a", "<=>", "b", "c", "->", "d", "e", "=>", "f"]),
    ("g::int h|>i", ["g", "::", "int", "h", "|>", "i"]),
    ("a==b<>c!=d||e", ["a", "==", "b", "<>", "c", "!=", "d", "||", "e"]),
    ("ARRAY<STRUCT<a:INT>>", ["ARRAY", "<", "STRUCT", "<", "a", ":", "INT", ">", ">"]),
    ("SHOW TABLES LIKE 'x'", ["SHOW", "TABLES", "LIKE", "'x'"]),
    ("VACUUM t RETAIN 5 HOURS", ["VACUUM", "t", "RETAIN", "5", "HOURS"]),
    ("a -- b\nc", ["a", "c"]),
    ("a /* b /* c */ d */ e", ["a", "e"]),
    ("a;b;;", ["a", ";", "b", ";", ";"]),
    ("SELECT 'a' \"b\" `c`", ["SELECT", "'a'", '"b"', "`c`"]),
    ("r'a\\' b", ["r'a\\'", "b"]),
    ("x'1F' y", ["x'1F'", "y"]),
    ("date'2026-01-01'", ["date", "'2026-01-01'"]),
    ("5L + 1.5e-3 - 2BD", ["5L", "+", "1.5e-3", "-", "2BD"]),
    ("'a\nb' c", ["'a\nb'", "c"]),
    ("`a``b` c", ["`a``b`", "c"]),
    ("'😀' `😀` a", ["'😀'", "`😀`", "a"]),
    ("{x} ? :p", ["{", "x", "}", "?", ":", "p"]),
    ("'it\\'s' a", ["'it\\'s'", "a"]),
    ("'\\\\' a", ["'\\\\'", "a"]),
]
SPLIT_BUGS = [
    bug("'it''s' a", ["'it''s'", "a"], reason="a doubled quote ends the text, but in Spark it is a quote"),
    bug(
        "a -- b \\\nc\nd",
        ["a", "d"],
        reason="a comment whose line ends with a backslash goes on in the next line",
    ),
]


@pytest.mark.parametrize(("sql", "pieces"), [*SPLIT, *SPLIT_BUGS])
def test_pieces(sql: str, pieces: list[str]) -> None:
    assert [sql[w.start : w.end] for w in split_words(sql)] == pieces


@pytest.mark.parametrize("sql", [sql for sql, _ in SPLIT])
def test_between_the_words_is_only_space_and_comment(sql: str) -> None:
    rest, at = "", 0
    for word in split_words(sql):
        assert at <= word.start < word.end
        rest, at = rest + sql[at : word.start], word.end
    assert re.fullmatch(r"(?s)(\s|--.*|/\*.*\*/)*", rest + sql[at:])


KINDS = [
    ("select", NAME, "select", "SELECT"),
    ("Tö_1", NAME, "Tö_1", "TÖ_1"),
    ("1a", NAME, "1a", "1A"),
    ("`Select`", QUOTED, "Select", ""),
    ("`a``b`", QUOTED, "a`b", ""),
    ("'FROM'", STRING, "FROM", ""),
    ('"FROM"', STRING, "FROM", ""),
    ("r'a\\b'", STRING, "a\\b", ""),
    ("x'1F'", STRING, "1F", ""),
    ("'it\\'s'", STRING, "it's", ""),
    ("'a\\nb'", STRING, "a\nb", ""),
    ("'a\\\\b'", STRING, "a\\b", ""),
    ("5", NUMBER, "5", ""),
    ("1.5", NUMBER, "1.5", ""),
    ("(", SYMBOL, "(", "("),
    ("<=>", SYMBOL, "<=>", "<=>"),
    bug("5L", NUMBER, "5L", "", reason="a number with a type letter or exponent counts as a name"),
    bug("1e5", NUMBER, "1e5", "", reason="a number with a type letter or exponent counts as a name"),
]


@pytest.mark.parametrize(("sql", "kind", "text", "upper"), KINDS)
def test_kind_and_text(sql: str, kind: WordKind, text: str, upper: str) -> None:
    (word,) = split_words(sql)
    assert (word.kind, word.text, word.upper) == (kind, text, upper)
    assert word.is_identifier == (kind in (NAME, QUOTED))


def test_lines_and_columns_count_from_one() -> None:
    words = split_words("a\r\nb\tc\n  'x\ny' d `q` e")
    assert [(w.text, w.line, w.column) for w in words] == [
        ("a", 1, 1),
        ("b", 2, 1),
        ("c", 2, 3),
        ("x\ny", 3, 3),
        ("d", 4, 4),
        ("q", 4, 6),
        ("e", 4, 10),
    ]


@pytest.mark.parametrize("sql", ["SELECT 'abc", 'SELECT "abc', "SELECT `abc", "SELECT 1 /* abc"])
def test_an_open_quote_is_a_syntax_error(sql: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        split_words(sql)
    assert "not closed" in caught.value.hint


def test_an_open_quote_is_named_with_its_place() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        split_words("SELECT a,\n  'abc")
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert "Error" not in caught.value.message


@pytest.mark.parametrize("name", ["a", "a b", "a`b", "``", "select", "ü", "a.b"])
def test_a_quoted_name_reads_back(name: str) -> None:
    (word,) = split_words(quote(name))
    assert (word.kind, word.text) == (QUOTED, name)


@pytest.mark.parametrize(
    ("text", "written"),
    [("a", "'a'"), ("it's", "'it\\'s'"), ("a\\b", "'a\\\\b'"), ("", "''"), ('"', "'\"'"), ("ü\n", "'ü\n'")],
)
def test_a_constant_is_written_for_spark(text: str, written: str) -> None:
    assert quote_literal(text) == written
