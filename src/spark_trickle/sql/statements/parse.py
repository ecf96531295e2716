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


def parse(sql: str) -> Statement:
    cursor = Cursor(sql)
    parser = _PARSERS.get(cursor.peek())
    statement = parser(cursor) if parser and not cursor.is_script else None
    if statement is None:
        cursor.at = len(cursor.words)
        return Query(cursor.slice(0, cursor.at))
    cursor.end()
    return statement


def _with(c: Cursor) -> Statement | None:
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
        c.identifier()
        while c.peek() == "(" or c.peek() in ("AS", "MAX"):
            if c.peek() == "(":
                c.skip_brackets()
            elif not c.accept("AS"):
                c.at += 4  # MAX RECURSION LEVEL n
        if not c.accept(","):
            break
    return c.slice(first, c.at)


def _begin(c: Cursor) -> Statement | None:
    if c.is_script:
        return None
    c.next()
    c.accept("TRANSACTION") or c.accept("WORK")
    return Begin()


def _start(c: Cursor) -> Statement:
    c.expect("START", "TRANSACTION")
    return Begin()


def _commit(c: Cursor) -> Statement:
    c.next()
    c.accept("TRANSACTION") or c.accept("WORK")
    return CommitWork()


def _rollback(c: Cursor) -> Statement:
    c.next()
    c.accept("TRANSACTION") or c.accept("WORK")
    return Rollback()


def _optimize(c: Cursor) -> Statement:
    c.expect("OPTIMIZE")
    c.accept("TABLE")
    return Optimize(c.name())


def _analyze(c: Cursor) -> Statement:
    raise UnsupportedError("ANALYZE TABLE", "Statistics are written with every file; there is nothing to do.")


def _use(c: Cursor) -> Statement:
    c.expect("USE")
    c.accept("SCHEMA") or c.accept("DATABASE") or c.accept("NAMESPACE")
    return Use(c.identifier())


def _show(c: Cursor) -> Statement | None:
    c.expect("SHOW")
    if c.accept("TABLES"):
        schema = c.identifier() if c.accept("IN") or c.accept("FROM") else None
        return ShowTables(schema, _pattern(c))
    if c.accept("SCHEMAS") or c.accept("DATABASES") or c.accept("NAMESPACES"):
        return ShowSchemas(_pattern(c))
    if c.accept("COLUMNS"):
        if not c.accept("IN"):
            c.expect("FROM")
        table = c.name()
        return ShowColumns((*c.name(), *table) if c.accept("IN") or c.accept("FROM") else table)
    if c.accept("CREATE", "TABLE"):
        return ShowCreateTable(c.name())
    if c.accept("SETTINGS"):
        return ShowSettings(None)
    if c.peek() == "TRICKLE" and c.peek(1) == ".":
        return ShowSettings(c.name()[1])
    return None


def _pattern(c: Cursor) -> str | None:
    if c.done:
        return None
    c.accept("LIKE")
    return c.string()


def _describe(c: Cursor) -> Statement | None:
    c.next()
    if c.peek() in ("QUERY", "FUNCTION", "SCHEMA", "DATABASE", "CATALOG", "SELECT", "WITH", "(", "VALUES"):
        return None
    c.accept("TABLE")
    c.accept("EXTENDED") or c.accept("FORMATTED")
    table = c.name()
    if not c.done:
        raise UnsupportedError("DESCRIBE of one column", f"Use DESCRIBE {table[-1]} to see all of them.")
    return Describe(table)


def _set(c: Cursor) -> Statement | None:
    c.expect("SET")
    if c.peek() != "TRICKLE" or c.peek(1) != ".":
        return None
    name = c.name()
    if not c.accept("="):
        c.expect("TO")
    if c.done:
        c.fail("expected a value")
    word = c.words[c.at]
    text = c.rest()
    return SetSetting(".".join(name[1:]), word.text if word.kind is WordKind.STRING else text)


_AFTER_WITH: dict[str, Callable[[Cursor], Statement | None]] = {
    "INSERT": rows.insert,
    "UPDATE": rows.update,
    "DELETE": rows.delete,
    "MERGE": rows.merge,
}
_PARSERS: dict[str, Callable[[Cursor], Statement | None]] = {
    "CREATE": definitions.create,
    "DROP": definitions.drop,
    "ALTER": definitions.alter,
    **_AFTER_WITH,
    "WITH": _with,
    "TRUNCATE": rows.truncate,
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "OPTIMIZE": _optimize,
    "VACUUM": parse_warehouse.vacuum,
    "BACKUP": parse_warehouse.back_up,
    "ANALYZE": _analyze,
    "REFRESH": parse_streams.refresh,
    "EXPLAIN": parse_streams.explain,
    "USE": _use,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SET": _set,
    "ATTACH": parse_sources.attach,
    "DETACH": parse_sources.detach,
    "SYNC": parse_sources.sync,
    "RESYNC": parse_sources.resync,
    "PUBLISH": parse_sources.publish,
    "UNPUBLISH": parse_sources.unpublish,
}
