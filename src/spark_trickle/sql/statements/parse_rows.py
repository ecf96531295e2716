"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE texts -> statements."""

from __future__ import annotations

from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements.kinds import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Name,
    Statement,
    Truncate,
    Update,
)

Qualifiers = tuple[tuple[str, ...], ...]


def parse_insert(c: Cursor) -> Statement | None:
    c.expect("INSERT")
    overwrite = c.accept("OVERWRITE")
    if not overwrite:
        c.expect("INTO")
    if overwrite and c.peek() in ("DIRECTORY", "LOCAL"):
        return None
    c.accept("TABLE")
    table = c.read_name()
    if c.peek() in ("PARTITION", "REPLACE"):
        raise UnsupportedError(f"INSERT … {c.peek()}", "Use DELETE and INSERT in one transaction, or MERGE.")
    by_name = c.accept("BY", "NAME")
    columns: tuple[str, ...] = ()
    starts_query = c.peek(1) in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
    if c.ahead_are_names_in_brackets() or (c.peek() == "(" and not starts_query):
        columns = c.read_names_in_brackets()
    if c.done:
        c.fail("expected VALUES or a query")
    if c.peek() == "DEFAULT" and c.peek(1) == "VALUES":
        raise UnsupportedError("INSERT … DEFAULT VALUES", "Write VALUES (DEFAULT, …).")
    start = c.at
    _parse_values(c)  # whose errors name a place in the whole statement
    c.at = start
    return Insert(table, c.read_rest(), columns, by_name, overwrite)


def read_values_rows(source: str) -> list[list[str]] | None:
    """The rows of a plain VALUES list, or None for any other query."""
    return _parse_values(Cursor(source))


def _parse_values(c: Cursor) -> list[list[str]] | None:
    if not c.accept("VALUES"):
        return None
    rows = []
    while True:
        rows.append(c.read_brackets() if c.peek() == "(" else [c.read_until(",")])
        if not c.accept(","):
            return rows if c.done else None


def parse_update(c: Cursor) -> Statement:
    c.expect("UPDATE")
    table = c.read_name()
    alias = _parse_alias(c, "SET")
    c.expect("SET")
    assignments = _parse_assignments(c, ("WHERE", "FROM"), _list_qualifiers(table, alias))
    source = c.read_until("WHERE") if c.accept("FROM") else None
    return Update(table, alias, assignments, source, _parse_where(c))


def parse_delete(c: Cursor) -> Statement:
    c.expect("DELETE", "FROM")
    table = c.read_name()
    alias = _parse_alias(c, "WHERE", "USING")
    source = c.read_until("WHERE") if c.accept("USING") else None
    return Delete(table, alias, source, _parse_where(c))


def parse_truncate(c: Cursor) -> Statement:
    c.expect("TRUNCATE")
    c.accept("TABLE")
    return Truncate(c.read_name())


def parse_merge(c: Cursor) -> Statement:
    c.expect("MERGE", "INTO")
    table = c.read_name()
    alias = _parse_alias(c, "USING")
    c.expect("USING")
    source = c.read_until("ON")
    c.expect("ON")
    condition = c.read_until("WHEN")
    if not source or not condition:
        c.fail("expected USING … ON …")
    clauses = []
    while c.accept("WHEN"):
        clauses.append(_parse_merge_clause(c, _list_qualifiers(table, alias)))
    if not clauses:
        c.fail("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, condition, tuple(clauses))


def _parse_merge_clause(c: Cursor, target: Qualifiers) -> MergeClause:
    matched = not c.accept("NOT")
    c.expect("MATCHED")
    by_source = False
    if not matched and c.accept("BY"):
        by_source = c.accept("SOURCE")
        if not by_source:
            c.expect("TARGET")
    condition = c.read_until("THEN") if c.accept("AND") else None
    c.expect("THEN")
    if c.accept("DELETE"):
        if not matched and not by_source:
            c.fail("a row that does not exist cannot be deleted")
        return MergeClause(matched, by_source, condition, True, ())
    if c.accept("UPDATE"):
        if not matched and not by_source:
            c.fail("a row that does not exist cannot be updated", "Use INSERT here.")
        c.expect("SET")
        if c.accept("*"):
            return MergeClause(matched, by_source, condition, False, None)
        return MergeClause(matched, by_source, condition, False, _parse_assignments(c, ("WHEN",), target))
    if matched or by_source:
        c.fail("expected UPDATE or DELETE")
    c.expect("INSERT")
    if c.accept("*"):
        return MergeClause(matched, by_source, condition, False, None)
    return MergeClause(matched, by_source, condition, False, _parse_insert_values(c, target))


def _parse_insert_values(c: Cursor, target: Qualifiers) -> tuple[Assignment, ...]:
    names = [_parse_column(Cursor(text), target) for text in c.read_brackets()]
    if not names:
        c.fail("expected the names of columns")
    c.expect("VALUES")
    values = c.read_brackets()
    if len(names) != len(values):
        c.at -= 1
        c.fail(f"{len(names)} columns but {len(values)} values")
    return tuple(Assignment(n, v) for n, v in zip(names, values, strict=True))


def _list_qualifiers(table: Name, alias: str | None) -> Qualifiers:
    """What may stand before a column of the target: its alias, or its name with or without the schema."""
    if alias is not None:
        return ((alias.lower(),),)
    lowered = tuple(part.lower() for part in table)
    return (lowered, lowered[-1:])


def _parse_column(c: Cursor, target: Qualifiers) -> str:
    name = c.read_name()
    before = tuple(part.lower() for part in name[:-1])
    if before and before not in target:
        raise UnsupportedError(
            f"assigning to {'.'.join(name)}, a field of a struct,", "Assign the whole struct: s = struct(…)."
        )
    return name[-1]


def _parse_assignments(c: Cursor, stops: tuple[str, ...], target: Qualifiers) -> tuple[Assignment, ...]:
    found = []
    while True:
        name = _parse_column(c, target)
        if not c.accept("=="):
            c.expect("=")
        value = c.read_until(",", *stops)
        if not value:
            c.fail("expected a value")
        found.append(Assignment(name, value))
        if not c.accept(","):
            return tuple(found)


def _parse_alias(c: Cursor, *stops: str) -> str | None:
    if c.accept("AS"):
        return c.read_identifier()
    if c.done or c.peek() in stops:
        return None
    return c.read_identifier()


def _parse_where(c: Cursor) -> str | None:
    if not c.accept("WHERE"):
        return None
    if c.done:
        c.fail("expected a condition")
    return c.read_rest()
