"""Table functions: what the warehouse knows about itself, usable inside any query."""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.errors import (
    ChangesUnknownError,
    InvalidDefinitionError,
    SqlSyntaxError,
    UnsupportedError,
    shorten_text,
    suggest_closest,
)
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.files import Role
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.model.table import Table
from spark_trickle.spark import feed
from spark_trickle.spark.frames import Frame, frame_of
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.txn.work import Work, now

Argument = str | int


def table_function(work: Work, name: str, arguments: tuple[str, ...]) -> Frame:
    functions = {**_FUNCTIONS, **work.place.functions}
    if (function := functions.get(name.lower())) is None:
        known = tuple(f"trickle.{n}" for n in functions)
        raise UnsupportedError(
            f"the table function trickle.{name}", suggest_closest(f"trickle.{name}", known, "table functions")
        )
    return function(work, tuple(_parse_constant(a) for a in arguments))


def _parse_constant(text: str) -> Argument:
    words = Cursor(text).words
    if len(words) == 1 and words[0].kind is WordKind.STRING:
        return words[0].text
    number = read_whole_number(words[0].text) if words[0].kind is WordKind.NUMBER else None
    if len(words) == 1 and number is not None:
        return number
    raise SqlSyntaxError(
        f"{shorten_text(text)} is not a constant",
        words[0].line,
        words[0].column,
        "Pass a string in quotes or a whole number.",
    )


def _find_table(work: Work, function: str, argument: Argument) -> Table:
    if not isinstance(argument, str):
        raise InvalidDefinitionError(
            f"trickle.{function} needs the name of a table", f"Write trickle.{function}('my_table', …)."
        )
    return work.catalog.table(Cursor(argument).read_name(), work.place.schema)


def require_arguments(function: str, arguments: tuple[Argument, ...], least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        raise InvalidDefinitionError(
            f"trickle.{function} takes {least} to {most} arguments, not {len(arguments)}",
            "For example: trickle.changes('my_table', 3, 9), trickle.files('my_table'), trickle.tables().",
        )


def _list_changes(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    require_arguments("changes", arguments, 2, 3)
    bounds = [a for a in arguments[1:] if isinstance(a, int)]
    if len(bounds) != len(arguments) - 1:
        raise InvalidDefinitionError(
            "the bounds of trickle.changes must be snapshot numbers", "Write trickle.changes('t', 3, 9)."
        )
    upto = bounds[1] if len(bounds) == 2 else work.base.id
    return read_changes(work, _find_table(work, "changes", arguments[0]), bounds[0], upto)


def read_changes(work: Work, table: Table, after: int, upto: int) -> Frame:
    """What changed in (after, upto], from the files of those commits alone."""
    work.reads.note_table(table.id)
    with open_reader(work.place.warehouse.engine) as connection:
        read.require_range(connection, after, upto)
        files = read.read_change_files(connection, table.id, after, upto)
        snapshots: list[Snapshot] = [
            read.read_snapshot(connection, n) for n in sorted({f.begin for f in files})
        ]
    for f in files:
        if f.role is Role.UNKNOWN:
            raise ChangesUnknownError(table.full_name, f.begin, f.reason)
    work.place.lease.cover(after, now())
    return feed.read_feed(work.place.spark, work.place.storage, table, files, snapshots)


def _list_snapshots(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    require_arguments("snapshots", arguments, 0, 0)
    with open_reader(work.place.warehouse.engine) as connection:
        entries = read.read_history(connection)
    columns = {
        "snapshot_id": "long",
        "snapshot_time": "timestamp",
        "schema_version": "long",
        "changes": "string",
        "message": "string",
    }
    rows = [(e.id, e.time, e.schema_version, e.changes, e.message) for e in entries]
    return frame_of(work.place.spark, columns, rows)


def _list_tables(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    require_arguments("tables", arguments, 0, 0)
    sizes = work.sizes()
    columns = {
        "schema_name": "string",
        "table_name": "string",
        "table_id": "long",
        "primary_key": "string",
        "row_count": "long",
        "file_count": "long",
        "total_bytes": "long",
    }
    rows = []
    for table in sorted(work.catalog.tables(), key=lambda t: t.full_name):
        size = sizes.get(table.id, read.TableSize(0, 0, 0))
        key = ", ".join(c.name for c in table.key_columns) or None
        rows.append((table.schema, table.name, table.id, key, size.rows, size.files, size.bytes))
    return frame_of(work.place.spark, columns, rows)


def _list_files(work: Work, arguments: tuple[Argument, ...]) -> Frame:
    require_arguments("files", arguments, 1, 1)
    table = _find_table(work, "files", arguments[0])
    columns = {
        "file": "string",
        "role": "string",
        "row_count": "long",
        "deleted_rows": "long",
        "size_bytes": "long",
        "begin_snapshot": "long",
    }
    rows = [
        (work.place.storage.path(table, f.path), f.role.value, f.rows, f.deletes, f.bytes, f.begin)
        for f in sorted(work.files(table), key=lambda f: (f.as_of, f.path))
    ]
    return frame_of(work.place.spark, columns, rows)


_FUNCTIONS: dict[str, Callable[[Work, tuple[Argument, ...]], Frame]] = {
    "changes": _list_changes,
    "snapshots": _list_snapshots,
    "tables": _list_tables,
    "files": _list_files,
}
