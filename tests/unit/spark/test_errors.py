"""What Spark says -> what we say: no names of Java, and no advice that we would refuse."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from spark_trickle.errors import QueryError, TrickleError, UnsupportedError
from spark_trickle.spark.errors import explain_error

_SAID: list[tuple[str, type[TrickleError], str]] = [
    # Spark's text, our error, its message
    (
        '[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. '
        'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012',
        QueryError,
        "DIVIDE_BY_ZERO: Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead",
    ),
    (
        '[ARITHMETIC_OVERFLOW] 1.5 overflow. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this '
        "error. SQLSTATE: 22003",
        QueryError,
        "ARITHMETIC_OVERFLOW: 1.5 overflow",
    ),
    (
        "org.apache.spark.SparkException: java.lang.IllegalArgumentException: the pattern is wrong",
        QueryError,
        "the pattern is wrong",
    ),
    (
        "java.lang.StackOverflowError",
        UnsupportedError,
        "a statement with so many parts, or parts nested so deeply, is not supported",
    ),
    (
        "[FAILED_TO_PARSE_TOO_COMPLEX] The statement, including potential SQL functions and referenced views, was "
        "too complex to parse. SQLSTATE: 54001",
        UnsupportedError,
        "a statement with so many parts, or parts nested so deeply, is not supported",
    ),
]  # fmt: skip


class Said(PySparkException):
    """As it comes from Spark, whose text has the condition in it."""

    def __init__(self, text: str) -> None:
        super().__init__(message=text)
        self.text = text

    def getMessage(self) -> str:
        return self.text

    def getCondition(self) -> str | None:
        return None


@pytest.mark.parametrize(("said", "kind", "message"), _SAID)
def test_what_spark_says_is_told_in_plain_words(said: str, kind: type[TrickleError], message: str) -> None:
    error = explain_error(Said(said))
    assert type(error) is kind
    assert error.message == message
    assert "ansi" not in str(error).lower()
