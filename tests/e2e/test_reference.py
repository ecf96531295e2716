"""The reference pages say what the code says: not stale, every example parses, every column is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spark_trickle.observe.functions import ANSWERS
from spark_trickle.session import Trickle
from spark_trickle.sql.statements.parse import parse_statement

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import generate_reference
from reference_statements import SHAPES, Shape


def test_pages_are_not_stale() -> None:
    assert list(generate_reference.stale()) == [], "run scripts/generate_reference.py"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.example)
def test_examples_are_the_statements_they_stand_for(shape: Shape) -> None:
    assert type(parse_statement(shape.example)) is shape.kind


def test_table_functions_have_the_columns_of_the_page(tr_sqlite: Trickle) -> None:
    tr_sqlite.sql("CREATE TABLE t (id INT)")
    calls = {"changes": "('t', 0)", "files": "('t')"}
    found = {
        name: tuple(tr_sqlite.sql(f"SELECT * FROM trickle.{name}{calls.get(name, '()')}").columns)
        for name in generate_reference.FUNCTIONS
    }
    written = {n: tuple(c for c, _ in f.columns) for n, f in generate_reference.FUNCTIONS.items()}
    assert found == {**written, "changes": ("id", *written["changes"])}


def test_functions_that_tell_have_the_columns_of_the_page(tr_sqlite: Trickle) -> None:
    tr_sqlite.sql("CREATE TABLE t (id INT)")
    tr_sqlite.sql("CREATE STREAM TABLE s AS SELECT id FROM t")
    of_query = dict.fromkeys(("explain_query_rewrite", "validate_query"), "'SELECT id FROM t'")
    of_stream = dict.fromkeys(("audit", "explain_refresh_mode", "explain_stream_table"), "'s'")
    of_stream |= {name: "'s'" for name, f in ANSWERS.items() if f.least}
    given = {**of_stream, **of_query, "bulk_create": "'[]'"}
    for name, columns in generate_reference.COLUMNS.items():
        found = tr_sqlite.sql(f"SELECT * FROM trickle.{name}({given.get(name, '')})").columns
        assert ", ".join(found) == columns.replace("…", "id"), name
