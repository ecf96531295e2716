"""Table functions on stream tables: audit, explanations, validation."""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.table import Table
from spark_trickle.refresh import explain
from spark_trickle.refresh.audit import audit
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.spark.frames import Frame, frame_of
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.txn.functions import Argument, require_arguments
from spark_trickle.txn.work import Work

_TEXTS = {"property": "string", "value": "string"}


def _require_text(function: str, arguments: tuple[Argument, ...]) -> str:
    require_arguments(function, arguments, 1, 1)
    if not isinstance(arguments[0], str):
        raise InvalidDefinitionError(f"trickle.{function} needs a string", f"Write trickle.{function}('…').")
    return arguments[0]


def _find_stream(work: Work, function: str, arguments: tuple[Argument, ...]) -> Table:
    return find_stream_table(work, Cursor(_require_text(function, arguments)).read_name())


def _validate_query(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    rows = explain.validate_query(work, _require_text("validate_query", arguments))
    return frame_of(work.place.spark, {"check_name": "string", "result": "string", "detail": "string"}, rows)


def _explain_rewrite(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    rows = explain.explain_rewrite(work, _require_text("explain_query_rewrite", arguments))
    columns = {"position": "long", "pass": "string", "what": "string", "tree": "string"}
    return frame_of(work.place.spark, columns, rows)


def _explain_mode(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    table = _find_stream(work, "explain_refresh_mode", arguments)
    return frame_of(work.place.spark, _TEXTS, explain.explain_mode(work, table))


def _explain_stream(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    table = _find_stream(work, "explain_stream_table", arguments)
    return frame_of(work.place.spark, _TEXTS, explain.explain_stream(work, table))


def _audit_stream(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    return audit(work, _find_stream(work, "audit", arguments))


def _list_streams(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    require_arguments("stream_tables", arguments, 0, 0)
    columns = {
        "schema_name": "string",
        "table_name": "string",
        "refresh_mode": "string",
        "schedule": "string",
        "status": "string",
        "frontier": "long",
        "error": "string",
        "query": "string",
    }
    rows = []
    with open_reader(work.place.warehouse.engine) as connection:
        for table in sorted(work.catalog.tables(), key=lambda t: t.full_name):
            if table.stream is not None:
                state = states.read_state(connection, table.id)
                rows.append(
                    (
                        table.schema,
                        table.name,
                        table.stream.mode.value,
                        table.stream.schedule,
                        state.status.value,
                        state.frontier,
                        state.error,
                        table.stream.query,
                    )
                )
    return frame_of(work.place.spark, columns, rows)


FUNCTIONS: dict[str, Callable[[Work, tuple[Argument, ...]], Frame]] = {
    "audit": _audit_stream,
    "explain_query_rewrite": _explain_rewrite,
    "explain_refresh_mode": _explain_mode,
    "explain_stream_table": _explain_stream,
    "stream_tables": _list_streams,
    "validate_query": _validate_query,
}
