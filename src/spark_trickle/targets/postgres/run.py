"""Statements of one published table -> done in one transaction, or one of our errors and nothing done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.pq import TransactionStatus

from spark_trickle.errors import (
    InternalError,
    RepairNeededError,
    SourceSetupError,
    TargetChangedError,
    TargetRefusedError,
    TrickleError,
)
from spark_trickle.sources.postgres.connect import Connection, find_secrets, first_line, scrub_secrets
from spark_trickle.sources.postgres.run import Statement, explain_error, require_open


@contextmanager
def begin_change(connection: Connection, table: str, lock_seconds: float) -> Iterator[None]:
    """All of the block or nothing of it; locks are waited for, but not longer than that."""
    if connection.info.transaction_status != TransactionStatus.IDLE and not connection.closed:
        raise InternalError("publishing cannot start inside an open transaction")
    try:
        with connection.transaction():
            timeout = sql.Literal(f"{int(lock_seconds * 1000)}ms")
            execute_statement(connection, sql.SQL("SET LOCAL lock_timeout = {}").format(timeout))
            yield
            require_open(connection)
    except psycopg.Error as error:
        ours = _explain_error(error, table, find_secrets(connection))
    else:
        return
    raise ours from None  # the original may hold a secret


@contextmanager
def ask_server(connection: Connection, table: str) -> Iterator[None]:
    """For questions, which need no transaction."""
    try:
        yield
    except psycopg.Error as error:
        ours = _explain_error(error, table, find_secrets(connection))
    else:
        return
    raise ours from None


def execute_statement(connection: Connection, statement: Statement) -> psycopg.Cursor[Any]:
    return connection.execute(statement)


def read_value(connection: Connection, query: Statement) -> Any:
    """The only value of a query that gives one row."""
    found = execute_statement(connection, query).fetchone()
    assert found is not None
    return found[0]


def _explain_error(error: psycopg.Error, table: str, secrets: tuple[str, ...]) -> TrickleError:
    """What only happens to a table that we write; all else is explained as for a source."""
    detail = scrub_secrets(first_line(error), secrets)
    match error:
        case errors.UniqueViolation():
            return RepairNeededError(table, f"a row with this key already exists: {detail}")
        case errors.UndefinedColumn() | errors.UndefinedTable() | errors.DatatypeMismatch():
            return TargetChangedError(table, (detail,))
        case psycopg.IntegrityError() | psycopg.DataError() | errors.DependentObjectsStillExist():
            return TargetRefusedError(table, detail)
        case errors.ProgramLimitExceeded() | errors.RaiseException() | errors.FeatureNotSupported():
            return TargetRefusedError(table, detail)
        case errors.ReadOnlySqlTransaction():
            return SourceSetupError(
                f"the target cannot be written: {detail}",
                "Connect to the primary server, with a role that may write.",
            )
    return explain_error(error, secrets)
