"""Names that nobody could read, and those that nothing could store."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.txn.names import LARGEST_COLUMN_COUNT, check_column_names, check_name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty"),
        (" \t", "empty"),
        ("\u200b", "invisible"),
        ("\u200b\u200d\ufeff", "invisible"),
        ("\u3164", "invisible"),
        ("\u2800\u115f", "invisible"),
        ("\u0301", "invisible"),
        ("\x01", "invisible"),
        ("a\0b", "NUL character"),
        ("x" * 256, "256 characters"),
    ],
)
def test_names_that_are_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=words):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "é", "e\u0301", "表", "✓", "-", "٣", "a\u200db", "🙂", "x" * 255])
def test_names_that_are_taken(name: str) -> None:
    check_name(name)


def test_as_many_columns_as_are_tested() -> None:
    check_column_names([f"c{n}" for n in range(LARGEST_COLUMN_COUNT)])
    with pytest.raises(InvalidDefinitionError, match="1001 columns") as refused:
        check_column_names([f"c{n}" for n in range(LARGEST_COLUMN_COUNT + 1)])
    assert "at most 1000 columns" in refused.value.hint
