"""Statement text -> Statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import WordKind
from spark_trickle.sql.statements import parse_definitions as definitions
from spark_trickle.sql.statements import parse_rows as rows
from spark_trickle.sql.statements import parse_sources, parse_streams, parse_warehouse
from spark_trickle.sql.statements.kinds import (
    Begin,
    CommitWork,
    Delete,
    Describe,
    Insert,
    Merge,
    Optimize,
    Query,
    Rollback,
    SetSetting,
    ShowColumns,
    ShowCreateTable,
    ShowSchemas,
    ShowSettings,
    ShowTables,
    Statement,
    Update,
    Use,
)


def parse_statement(sql: str) -> Statement:
    cursor = Cursor(sql)
    parser = _PARSERS.get(cursor.peek())
    statement = parser(cursor) if parser and not cursor.is_script else None
    if statement is None:
        cursor.at = len(cursor.words)
        return Query(cursor.slice(0, cursor.at))
    cursor.expect_end()
    return statement


def _parse_with(c: Cursor) -> Statement | None:
    """WITH … before INSERT, UPDATE, DELETE or MERGE; before anything else it is a query."""
    ctes = _skip_ctes(c)
    parser = _AFTER_WITH.get(c.peek())
    statement = parser(c) if parser else None
    return (
        replace(statement, ctes=f"{ctes} ")
        if isinstance(statement, Insert | Update | Delete | Merge)
        else None
    )


def _skip_ctes(c: Cursor) -> str:
    first = c.at
    c.expect("WITH")
    if c.peek(1) not in ("AS", "("):
        c.accept("RECURSIVE")
    while not c.done:
        c.read_identifier()
        while c.peek() == "(" or c.peek() in ("AS", "MAX"):
            if c.peek() == "(":
                c.skip_brackets()
            elif not c.accept("AS"):
                c.at += 4  # MAX RECURSION LEVEL n
        if not c.accept(","):
            break
    return c.slice(first, c.at)


def _parse_begin(c: Cursor) -> Statement | None:
    if c.is_script:
        return None
    c.read_word()
    c.accept("TRANSACTION") or c.accept("WORK")
    return Begin()


def _parse_start(c: Cursor) -> Statement:
    c.expect("START", "TRANSACTION")
    return Begin()


def _parse_commit(c: Cursor) -> Statement:
    c.read_word()
    c.accept("TRANSACTION") or c.accept("WORK")
    return CommitWork()


def _parse_rollback(c: Cursor) -> Statement:
    c.read_word()
    c.accept("TRANSACTION") or c.accept("WORK")
    return Rollback()


def _parse_optimize(c: Cursor) -> Statement:
    c.expect("OPTIMIZE")
    c.accept("TABLE")
    return Optimize(c.read_name())


def _parse_analyze(c: Cursor) -> Statement:
    raise UnsupportedError("ANALYZE TABLE", "Statistics are written with every file; there is nothing to do.")


def _parse_use(c: Cursor) -> Statement:
    c.expect("USE")
    c.accept("SCHEMA") or c.accept("DATABASE") or c.accept("NAMESPACE")
    return Use(c.read_identifier())


def _parse_show(c: Cursor) -> Statement | None:
    c.expect("SHOW")
    if c.accept("TABLES"):
        schema = c.read_identifier() if c.accept("IN") or c.accept("FROM") else None
        return ShowTables(schema, _parse_pattern(c))
    if c.accept("SCHEMAS") or c.accept("DATABASES") or c.accept("NAMESPACES"):
        return ShowSchemas(_parse_pattern(c))
    if c.accept("COLUMNS"):
        if not c.accept("IN"):
            c.expect("FROM")
        table = c.read_name()
        return ShowColumns((*c.read_name(), *table) if c.accept("IN") or c.accept("FROM") else table)
    if c.accept("CREATE", "TABLE"):
        return ShowCreateTable(c.read_name())
    if c.accept("SETTINGS"):
        return ShowSettings(None)
    if c.peek() == "TRICKLE" and c.peek(1) == ".":
        return ShowSettings(c.read_name()[1])
    return None


def _parse_pattern(c: Cursor) -> str | None:
    if c.done:
        return None
    c.accept("LIKE")
    return c.read_string()


def _parse_describe(c: Cursor) -> Statement | None:
    c.read_word()
    if c.peek() in ("QUERY", "FUNCTION", "SCHEMA", "DATABASE", "CATALOG", "SELECT", "WITH", "(", "VALUES"):
        return None
    c.accept("TABLE")
    c.accept("EXTENDED") or c.accept("FORMATTED")
    table = c.read_name()
    if not c.done:
        raise UnsupportedError("DESCRIBE of one column", f"Use DESCRIBE {table[-1]} to see all of them.")
    return Describe(table)


def _parse_set(c: Cursor) -> Statement | None:
    c.expect("SET")
    if c.peek() != "TRICKLE" or c.peek(1) != ".":
        return None
    name = c.read_name()
    if not c.accept("="):
        c.expect("TO")
    if c.done:
        c.fail("expected a value")
    word = c.words[c.at]
    text = c.read_rest()
    return SetSetting(".".join(name[1:]), word.text if word.kind is WordKind.STRING else text)


_AFTER_WITH: dict[str, Callable[[Cursor], Statement | None]] = {
    "INSERT": rows.parse_insert,
    "UPDATE": rows.parse_update,
    "DELETE": rows.parse_delete,
    "MERGE": rows.parse_merge,
}
_PARSERS: dict[str, Callable[[Cursor], Statement | None]] = {
    "CREATE": definitions.parse_create,
    "DROP": definitions.parse_drop,
    "ALTER": definitions.parse_alter,
    **_AFTER_WITH,
    "WITH": _parse_with,
    "TRUNCATE": rows.parse_truncate,
    "BEGIN": _parse_begin,
    "START": _parse_start,
    "COMMIT": _parse_commit,
    "ROLLBACK": _parse_rollback,
    "OPTIMIZE": _parse_optimize,
    "VACUUM": parse_warehouse.parse_vacuum,
    "BACKUP": parse_warehouse.parse_backup,
    "ANALYZE": _parse_analyze,
    "REFRESH": parse_streams.parse_refresh,
    "EXPLAIN": parse_streams.parse_explain,
    "USE": _parse_use,
    "SHOW": _parse_show,
    "DESCRIBE": _parse_describe,
    "DESC": _parse_describe,
    "SET": _parse_set,
    "ATTACH": parse_sources.parse_attach,
    "DETACH": parse_sources.parse_detach,
    "SYNC": parse_sources.parse_sync,
    "RESYNC": parse_sources.parse_resync,
    "PUBLISH": parse_sources.parse_publish,
    "UNPUBLISH": parse_sources.parse_unpublish,
}
