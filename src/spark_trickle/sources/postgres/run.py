"""Statements -> rows and bytes; whatever psycopg raises comes out as one of our errors, without secrets."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import psycopg
from psycopg import capabilities, errors, sql

from spark_trickle.errors import (
    InternalError,
    SourceBusyError,
    SourceSetupError,
    SourceUnavailableError,
    TrickleError,
)
from spark_trickle.sources.postgres.connect import Connection, find_secrets, first_line, scrub_secrets

# Names go into statements only as sql.Identifier and values only as sql.Literal. Parameters are not used:
# in a statement with parameters psycopg would take the % in a quoted name for one.
Statement = sql.SQL | sql.Composed

_STREAMED = 500  # rows that a stream brings at a time
LOCK_SECONDS = 5.0  # to wait for a table: not long, because those who write to it wait behind us meanwhile


def read_rows(connection: Connection, query: Statement) -> list[tuple[Any, ...]]:
    _require_idle(connection)
    with translate_errors(connection):
        return connection.execute(query).fetchall()


def rows_if_table_exists(connection: Connection, query: Statement) -> list[tuple[Any, ...]]:
    """The rows of a query, and none if its table was never made; outside of a transaction."""
    _require_idle(connection)
    with translate_errors(connection):
        try:
            return connection.execute(query).fetchall()
        except errors.UndefinedTable:
            return []


def rows_of_all(connection: Connection, *queries: Statement) -> list[list[tuple[Any, ...]]]:
    """The rows of several queries at one moment, by one statement; values are what JSON makes of them."""
    parts = (sql.SQL("(SELECT coalesce(json_agg(q), '[]')::text FROM ({}) AS q)").format(q) for q in queries)
    found = read_rows(connection, sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts)))[0]
    return [json.loads(text, object_pairs_hook=_take_values) for text in found]


def rows_in_groups(connection: Connection, *groups: Sequence[Statement]) -> list[list[list[tuple[Any, ...]]]]:
    """The same for groups of queries, each of which somebody else reads."""
    answers = iter(rows_of_all(connection, *chain.from_iterable(groups)))
    return [[next(answers) for _ in group] for group in groups]


def _take_values(pairs: list[tuple[str, Any]]) -> tuple[Any, ...]:
    return tuple(value for _, value in pairs)


def read_value(connection: Connection, query: Statement) -> Any:
    """The only value of a query that gives one row."""
    return read_rows(connection, query)[0][0]


def ping_server(connection: Connection) -> None:
    """Find out whether the server still answers on a connection."""
    run_statements(connection, sql.SQL(""))


def run_statements(connection: Connection, *statements: Statement) -> int:
    """The number of rows that the last statement touched."""
    touched = 0
    _require_idle(connection)
    with translate_errors(connection):
        for statement in statements:
            touched = connection.execute(statement).rowcount
    return touched


def copy_out(connection: Connection, query: Statement) -> Generator[bytes, None, None]:
    """The rows of a query as lines of CSV; NULL is nothing, an empty text is \"\"."""

    def lines() -> Generator[bytes, None, None]:
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query)
        with translate_errors(connection), connection.cursor() as cursor, cursor.copy(copy) as found:
            for line in found:
                yield bytes(line)

    return _guard_unread(connection, lines())


def stream_rows(connection: Connection, query: Statement) -> Generator[tuple[Any, ...], None, None]:
    """The rows of a query one by one, in binary form; they are never all in memory."""

    def read_all() -> Generator[tuple[Any, ...], None, None]:
        with translate_errors(connection), connection.cursor(binary=True) as cursor:
            yield from cursor.stream(query, size=_STREAMED if capabilities.has_stream_chunked() else 1)

    return _guard_unread(connection, read_all())


@contextmanager
def begin_transaction(connection: Connection) -> Iterator[None]:
    """All of the block or nothing of it; what is read in it has to be read to the end."""
    _require_idle(connection)
    with translate_errors(connection), connection.transaction():
        try:
            yield
        except BaseException:
            _give_up(connection)
            raise
        if _give_up(connection):
            raise InternalError("rows were left unread at the end of a transaction")
        require_open(connection)


def lock_timeout(seconds: float) -> Statement:
    """How long each statement of a transaction may wait for what others have locked."""
    return sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{int(seconds * 1000)}ms"))


def require_open(connection: Connection) -> None:
    """At the end of a transaction: psycopg does not commit on a closed connection, and does not say so."""
    if connection.closed:
        raise SourceUnavailableError("the connection was closed before the end of a transaction")


# --- one thing at a time -------------------------------------------------------------------------

# psycopg locks a connection while rows come in: another statement would wait for ever. And a reader that
# stops half way would leave out rows without a word. Both are mistakes of ours, so they are errors.

T = TypeVar("T")


def _guard_unread(connection: Connection, rows: Generator[T, None, None]) -> Generator[T, None, None]:
    _require_idle(connection)
    connection.unread = rows
    try:
        yield from rows
    finally:
        rows.close()
        connection.unread = None


def _require_idle(connection: Connection) -> None:
    if connection.unread is not None:
        raise InternalError("a statement was sent while rows of another one are unread")


def _give_up(connection: Connection) -> bool:
    """Close what is unread; whether there was something."""
    unread, connection.unread = connection.unread, None
    if unread is not None:
        unread.close()
    return unread is not None


@contextmanager
def translate_errors(connection: Connection) -> Iterator[None]:
    """Ours pass through; psycopg's are explained, and the original is not chained: it may hold a secret."""
    try:
        yield
    except psycopg.Error as error:
        ours = explain_error(error, find_secrets(connection))
    else:
        return
    raise ours from None


def explain_error(error: psycopg.Error, secrets: tuple[str, ...]) -> TrickleError:
    """An error of psycopg as the user should read it."""
    detail = scrub_secrets(first_line(error), secrets)
    match error:
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return SourceBusyError(f"the source is busy: {detail}")
        case errors.QueryCanceled():
            return SourceBusyError(f"the source took too long: {detail}")
        case errors.ObjectInUse():
            return SourceBusyError(f"another connection uses it: {detail}")
        case errors.InsufficientPrivilege():
            return SourceSetupError(
                f"the role of spark-trickle lacks rights on the source: {detail}",
                "Grant it the right that the error names; the guide lists all rights that capturing needs.",
            )
        case errors.ObjectNotInPrerequisiteState() | errors.ConfigurationLimitExceeded():
            return SourceSetupError(
                f"the source is not configured for this: {detail}",
                "Change the setting that the error names, then try again.",
            )
        case errors.UndefinedObject() | errors.UndefinedTable():
            return SourceSetupError(
                f"an object of spark-trickle is missing from the source: {detail}",
                "Set up the capture of this source again, then copy its tables again.",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return SourceUnavailableError(detail)
    return InternalError(f"{type(error).__name__}: {detail}")
