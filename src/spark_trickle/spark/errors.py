"""Spark's exceptions -> ours: the condition and one sentence, never a Java stack trace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.errors import PySparkException

from spark_trickle.errors import (
    ColumnNotFoundError,
    DamagedFileError,
    FolderNotSharedError,
    OutsideFileError,
    QueryError,
    ResultTooLargeError,
    SourceSetupError,
    SourceUnavailableError,
    SparkLostError,
    SqlSyntaxError,
    TableNotFoundError,
    TrickleError,
    UnsupportedError,
    ValueTooLongError,
    WarehouseError,
    shorten_text,
)

try:
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
except ImportError:  # a client of Spark Connect has no Java of its own
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
    SPARK_LOST: tuple[type[Exception], ...] = (ConnectionError,)
else:
    SPARK_ERRORS = (PySparkException, Py4JJavaError)
    SPARK_LOST = (ConnectionError, Py4JNetworkError)

_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_OF_VALUES = re.compile(r"SQLSTATE: (22|P0001)")  # data exceptions, and those that a query raises itself
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_SUGGESTIONS = re.compile(r"Did you mean one of the following\? \[(.*?)\]")

_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[^\n]*? file \S*?([^/\s]+\.parquet)\b")
_NOT_THERE = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*? file (\S+\.parquet)\b")
_ELSEWHERE = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:]+[^\s:,]*")
_GONE = re.compile(
    r"(?:Path does not exist: |FileNotFoundException: No such file or directory: "
    r"|\[FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*? file )((?!file:)[a-z][a-z0-9+.-]*://\S+?\.parquet)\b"
)
# What clients of storages say when they get no answer, or no right one.
_OUT_OF_REACH = re.compile(
    r"SdkClientException|AWSClientIOException|AWSStatus\d+Exception|AccessDenied|SocketTimeout|ConnectException"
    r"|UnknownHost|ConnectionPoolTimeout|ConnectTimeout|NoHttpResponse|SlowDown|AbfsRestOperationException"
    r"|GoogleJsonResponseException|Could not initialize|Connection (?:reset|refused)"
)
_NO_CLIENT = re.compile(r'Class (org\.apache\.hadoop\.fs\.\S+) not found|No FileSystem for scheme "(\w+)"')
_NOT_MADE = re.compile(r"Mkdirs failed to create (\S+)")
_LONG_WORD = re.compile(r"\S{80,}")
_TOO_LONG = re.compile(r"the value is too long for column `(.+)` of type (\S+): (.*)")

_TOO_LARGE = re.compile(
    r"Total size of serialized results of [^\n]*|memory\.OutOfMemoryException: [^\n]*|Java heap space"
    r"|Not enough memory to build and broadcast the table[^\n]*"
)

_ANSI = "spark.sql.ansi.enabled"
# such as java.lang.ArithmeticException: in front of a message, or alone
_JAVA_CLASS = re.compile(r"\b(?:[a-z][\w$]*\.){2,}[A-Z][\w$]*(?:Exception|Error)\b:?\s*")

_ADVICE = {
    "DIVIDE_BY_ZERO": "Use try_divide or NULLIF to allow it.",
    "CAST_INVALID_INPUT": "Use try_cast to turn what does not fit into NULL.",
    "CAST_OVERFLOW": "Use a wider column, or try_cast to turn what does not fit into NULL.",
    "CAST_OVERFLOW_IN_TABLE_INSERT": "Use a wider column, or try_cast to turn what does not fit into NULL.",
    "ARITHMETIC_OVERFLOW": "Cast the operands to a wider type.",
    "NUMERIC_VALUE_OUT_OF_RANGE": "Use a wider DECIMAL, or round the value.",
}


@contextmanager
def explain_errors(sql: str, available: tuple[str, ...] = ()) -> Iterator[None]:
    """Run a block whose Spark errors are about this text."""
    try:
        yield
    except TrickleError:
        raise
    except SPARK_ERRORS as error:
        raise explain_error(error, available) from None
    except SPARK_LOST as error:
        raise _make_loss(error) from None


@contextmanager
def notice_loss() -> Iterator[None]:
    """Run a block that needs Spark's process, which may be gone."""
    try:
        yield
    except SPARK_LOST as error:
        raise _make_loss(error) from None


def _make_loss(error: Exception) -> SparkLostError:
    return SparkLostError(shorten_text(str(error).strip()) or "its process ended")


def explain_error(error: Exception, available: tuple[str, ...] = ()) -> TrickleError:
    whole = _read_text(error)
    if elsewhere := _folder_of_another_machine(whole):
        return elsewhere
    # The innermost cause of Java may be silent about what was to be read: all of them together are not.
    causes = whole if isinstance(error, PySparkException) else str(error)
    if of_storage := explain_storage(causes):
        return of_storage
    if unreadable := _UNREADABLE.search(whole):
        return DamagedFileError("", unreadable[1], "cannot be read as Parquet")
    if too_large := _TOO_LARGE.search(whole):
        return ResultTooLargeError(_clean_text(too_large[0]))
    if "StackOverflowError" in whole or "FAILED_TO_PARSE_TOO_COMPLEX" in whole:
        return UnsupportedError(
            "a statement with so many parts, or parts nested so deeply,",
            "Give inner parts names with WITH, make them views, or split the statement.",
        )
    text = _find_innermost(whole)
    condition = (m[1] if (m := _CONDITION.match(text)) else "") or _read_condition(error)
    detail = _clean_text(_CONDITION.sub("", text))
    if "No space left on device" in text or "Read-only file system" in text or "Permission denied" in text:
        return WarehouseError(
            f"the data cannot be written: {detail}", "Free some space, or correct the permissions."
        )
    if condition.startswith("PARSE_SYNTAX_ERROR") or (
        (place := _PLACE.search(text)) and "PARSE" in condition
    ):
        place = _PLACE.search(text)
        line, column = (int(place[1]), int(place[2]) + 1) if place else (0, 0)
        return SqlSyntaxError(detail, line, column)
    if condition == "TABLE_OR_VIEW_NOT_FOUND" and _find_names(text):
        return TableNotFoundError(shorten_text(_find_names(text)[0]), available)
    if condition.startswith("UNRESOLVED_COLUMN") and _find_names(text):
        return ColumnNotFoundError(shorten_text(_find_names(text)[0]), _find_suggestions(text))
    if condition == "USER_RAISED_EXCEPTION" and (too_long := _TOO_LONG.search(detail)):
        return ValueTooLongError(too_long[1], too_long[2], shorten_text(too_long[3]))
    by_value = bool(_OF_VALUES.search(text))
    advice = _ADVICE.get(condition.split(".")[0])
    if advice:
        return QueryError(detail, condition, advice, by_value=by_value)
    return QueryError(detail, condition, by_value=by_value)


def explain_storage(text: str) -> TrickleError | None:
    """What is the fault of a storage that others keep, or of the way to it."""
    if no_client := _NO_CLIENT.search(text):
        return SourceSetupError(
            f"Spark has no client of this storage ({no_client[1] or no_client[2]})",
            "For S3 start Spark with spark.jars.packages = org.apache.hadoop:hadoop-aws:3.5.0, where 3.5.0"
            " is the version of its Hadoop, as it is in PySpark 4.3.",
        )
    if gone := _GONE.search(text):
        return OutsideFileError("", gone[1], "is gone")
    if (found := _ELSEWHERE.search(text)) and (cause := _OUT_OF_REACH.search(text)):
        line = next((part for part in text.split("\n") if cause[0] in part), text)
        return SourceUnavailableError(f"{found[0]}: {_clean_text(line)}")
    return None


def _folder_of_another_machine(text: str) -> FolderNotSharedError | None:
    """An executor misses what is there at the driver: a file, or the folder that it was told to write to."""
    missing, not_made = _NOT_THERE.search(text), _NOT_MADE.search(text)
    if missing and os.path.exists(path := _local_path(missing[1])):
        folder, name = os.path.split(path)
        return FolderNotSharedError(_data_folder(folder), f"one of them cannot find {name}")
    if not_made and os.path.isdir(folder := _data_folder(_local_path(not_made[1]))):
        return FolderNotSharedError(folder, "one of them cannot create a folder there")
    return None


def _local_path(address: str) -> str:
    return unquote(re.sub("^file:/+", "/", address))


def _data_folder(path: str) -> str:
    return path.split("/tables/")[0]


def _read_text(error: Exception) -> str:
    if isinstance(error, PySparkException):
        return str(error.getMessage() or error)
    cause = error.java_exception  # type: ignore[attr-defined]  # of a Py4JJavaError
    while cause.getCause() is not None and not _UNREADABLE.search(str(cause.getMessage())):
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString())


def _read_condition(error: Exception) -> str:
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""


def _find_innermost(text: str) -> str:
    """A job failure wraps the error of its task: the last bracketed condition is the cause."""
    if "Job aborted" in text or "FAILED_READ_FILE" in text or "TASK_WRITE_FAILED" in text:
        inner = re.findall(r"(\[[A-Z][A-Z0-9_.]+\] [^\n]*)", text)
        causes = [i for i in inner if "TASK_WRITE_FAILED" not in i and "FAILED_READ_FILE" not in i]
        if causes:
            return str(causes[-1])
    return text.removeprefix("org.apache.spark.SparkException: ")


def _clean_text(text: str) -> str:
    first = _LONG_WORD.sub(lambda m: shorten_text(m[0]), _JAVA_CLASS.sub("", text.strip()).split("\n")[0])
    text = _without_ansi_advice(_SQLSTATE.sub("", first)).rstrip(". ").strip()
    return shorten_text(text, 400) or "Spark could not run the statement"


def _without_ansi_advice(text: str) -> str:
    """Spark advises to switch ANSI mode off, which we refuse: values would be stored as others."""
    if _ANSI not in text:
        return text
    sentences = re.split(r"(?<=[.!?])\s+", text)
    return " ".join(s for s in sentences if _ANSI not in s)


def _find_names(text: str) -> list[str]:
    quoted = re.findall(r"(?:`(?:[^`]|``)+`\.?)+", text)
    return [q.replace("`", "") for q in quoted]


def _find_suggestions(text: str) -> tuple[str, ...]:
    found = _SUGGESTIONS.search(text)
    return tuple(n.split(".")[-1] for n in _find_names(found[1].replace(", ", " "))) if found else ()
