"""CREATE, DROP and ALTER texts -> statements."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements import parse_sources, parse_streams, parse_warehouse
from spark_trickle.sql.statements.kinds import (
    AddColumns,
    AlterColumn,
    ColumnDefinition,
    CreateSchema,
    CreateTable,
    CreateTempView,
    CreateView,
    DropColumns,
    DropSchema,
    DropTable,
    DropView,
    MirrorTable,
    Name,
    RenameColumn,
    RenameTable,
    Statement,
    WidenMirror,
)

_AFTER_TYPE = ("NOT", "NULL", "DEFAULT", "COMMENT", "PRIMARY", "GENERATED", "UNIQUE", "CHECK", "REFERENCES")
_NO_QUERY = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "DROP", "ALTER", "BEGIN", "COMMIT")
_AFTER_DEFAULT = (
    ",",
    "NOT NULL",
    "COMMENT",
    "PRIMARY",
    "GENERATED",
    "UNIQUE",
    "CHECK",
    "REFERENCES",
    "FIRST",
    "AFTER",
)


def parse_create(c: Cursor) -> Statement | None:
    c.expect("CREATE")
    swap = c.accept("OR", "REPLACE")
    if not swap and (c.accept("SCHEMA") or c.accept("DATABASE") or c.accept("NAMESPACE")):
        quiet = c.accept("IF", "NOT", "EXISTS")
        return CreateSchema(c.read_identifier(), quiet)
    if parse_streams.accept_noun(c):
        return parse_streams.parse_create(c, swap)
    if c.accept("TABLE"):
        return _parse_create_table(c, swap)
    if c.accept("VIEW"):
        return _parse_create_view(c, swap)
    if c.accept("TEMPORARY", "VIEW") or c.accept("TEMP", "VIEW"):
        return _parse_create_temp_view(c, swap)
    if c.peek() == "INDEX":
        raise UnsupportedError("CREATE INDEX", "Files are pruned by their statistics; no index is needed.")
    if swap and c.peek() in ("SCHEMA", "DATABASE", "NAMESPACE"):
        c.fail("a schema cannot be replaced", "Use DROP SCHEMA and CREATE SCHEMA.")
    return None


def _parse_create_table(c: Cursor, swap: bool) -> CreateTable | MirrorTable:
    quiet = c.accept("IF", "NOT", "EXISTS")
    statement = CreateTable(c.read_name(), if_not_exists=quiet, replace=swap)
    if not swap and c.accept("FROM", "SOURCE"):
        return parse_sources.parse_mirror(c, statement.name, quiet)
    if c.peek() == "(":
        statement = _parse_table_elements(c, statement)
    _parse_table_options(c)
    if c.accept("AS") or c.peek() in ("SELECT", "WITH"):
        statement = replace(statement, query=_parse_query(c))
    if not statement.columns and statement.query is None:
        c.fail("expected a list of columns or AS SELECT")
    return statement


def _parse_table_elements(c: Cursor, statement: CreateTable) -> CreateTable:
    columns: list[ColumnDefinition] = []
    key: tuple[str, ...] = ()
    enforced = True
    c.expect("(")
    while True:
        if c.peek() == "CONSTRAINT" and c.peek(2) in ("PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
            c.at += 2
        if c.peek() == "PRIMARY" and c.peek(1) == "KEY" and c.peek(2) == "(":
            c.expect("PRIMARY", "KEY")
            if key:
                c.fail("more than one primary key", "Write PRIMARY KEY (a, b) once, after the columns.")
            key, enforced = c.read_names_in_brackets(), _parse_enforcement(c)
        elif c.peek() in ("FOREIGN", "UNIQUE", "CHECK") and c.peek(1) in ("KEY", "("):
            raise UnsupportedError(
                f"a {c.peek()} constraint", "Declare a PRIMARY KEY, or check the data in a query."
            )
        else:
            columns.append(_parse_column(c))
        if not c.accept(","):
            break
    c.expect(")")
    own = [d for d in columns if d.primary_key]
    if own:
        if key or len(own) > 1:
            c.fail("more than one primary key", "Write PRIMARY KEY (a, b) once, after the columns.")
        key, enforced = (own[0].name,), own[0].key_enforced
    return replace(statement, columns=tuple(columns), key=key, key_enforced=enforced)


def _parse_column(c: Cursor) -> ColumnDefinition:
    column = ColumnDefinition(c.read_identifier(), "")
    if c.peek() == ".":
        c.fail("expected a type", "Add a new column instead; a struct cannot get new fields.")
    column = replace(column, type=_parse_type(c))
    while True:
        if c.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif c.accept("NULL"):
            column = replace(column, nullable=True)
        elif c.accept("DEFAULT"):
            column = replace(column, default=c.read_until(*_AFTER_DEFAULT))
            if not column.default:
                c.fail("expected a value after DEFAULT")
        elif c.accept("COMMENT"):
            column = replace(column, comment=c.read_string())
        elif c.accept("PRIMARY", "KEY"):
            column = replace(column, primary_key=True, key_enforced=_parse_enforcement(c))
        elif c.peek() in ("GENERATED", "UNIQUE", "CHECK", "REFERENCES"):
            raise UnsupportedError(
                f"{c.peek()} on a column", "Leave it out, or compute the value in a query."
            )
        else:
            return column


def _parse_enforcement(c: Cursor) -> bool:
    if c.accept("NOT", "ENFORCED"):
        c.accept("RELY") or c.accept("NORELY")
        return False
    c.accept("ENFORCED")
    return True


def _parse_type(c: Cursor) -> str:
    """A type up to the next word that cannot belong to it; commas inside <…> and (…) do."""
    first, angles, brackets = c.at, 0, 0
    while not c.done:
        word = c.peek()
        if angles == 0 and brackets == 0 and (word in _AFTER_TYPE or word in (",", ")", "FIRST", "AFTER")):
            break
        angles += word.count("<") - word.count(">") if set(word) <= {"<", ">"} else 0
        brackets += {"(": 1, ")": -1}.get(word, 0)
        c.at += 1
    text = c.slice(first, c.at)
    if not text:
        c.fail("expected a type")
    return text


def _parse_table_options(c: Cursor) -> None:
    while not c.done and c.peek() not in ("AS", "SELECT", "WITH"):
        if c.accept("COMMENT"):
            c.read_string()
            continue
        word = c.peek()
        advice = {
            "USING": "Leave USING out: tables of the warehouse are always Parquet.",
            "PARTITIONED": "Leave it out: files are pruned by their statistics.",
            "CLUSTER": "Leave it out: files are pruned by their statistics.",
            "LOCATION": "Leave it out: the warehouse places the files itself.",
        }.get(word)
        if advice is None:
            c.fail("expected AS SELECT or the end of the statement")
        raise UnsupportedError(f"{word} in CREATE TABLE", advice or "")


def _parse_create_view(c: Cursor, swap: bool) -> CreateView:
    quiet = c.accept("IF", "NOT", "EXISTS")
    name = c.read_name()
    columns = _parse_view_columns(c) if c.peek() == "(" else ()
    comment = c.read_string() if c.accept("COMMENT") else None
    c.expect("AS")
    return CreateView(name, _parse_query(c), columns, comment, quiet, swap)


def _parse_view_columns(c: Cursor) -> tuple[str, ...]:
    c.expect("(")
    names = []
    while True:
        names.append(c.read_identifier())
        if c.peek() == "COMMENT":
            raise UnsupportedError(
                "a COMMENT on a column of a view", "Describe the columns in the view's COMMENT."
            )
        if not c.accept(","):
            break
    c.expect(")")
    return tuple(names)


def _parse_create_temp_view(c: Cursor, swap: bool) -> Statement | None:
    name = c.read_identifier()
    if not c.accept("AS"):
        return None  # columns or USING: Spark's own forms
    return CreateTempView(name, swap, _parse_query(c))


def _parse_query(c: Cursor) -> str:
    if c.done or c.peek() in _NO_QUERY:
        c.fail("expected a query", "Write a SELECT here.")
    return c.read_rest()


def parse_drop(c: Cursor) -> Statement | None:
    c.expect("DROP")
    if parse_streams.accept_noun(c):
        return parse_streams.parse_drop(c)
    if c.accept("TABLE"):
        quiet = c.accept("IF", "EXISTS")
        statement = DropTable(c.read_name(), quiet)
        c.accept("PURGE")
        return statement
    if c.accept("VIEW"):
        quiet = c.accept("IF", "EXISTS")
        return DropView(c.read_name(), quiet)
    if c.accept("SCHEMA") or c.accept("DATABASE") or c.accept("NAMESPACE"):
        quiet = c.accept("IF", "EXISTS")
        name = c.read_identifier()
        cascade = c.accept("CASCADE")
        c.accept("RESTRICT")
        return DropSchema(name, quiet, cascade)
    return None


def parse_alter(c: Cursor) -> Statement | None:
    c.expect("ALTER")
    if parse_streams.accept_noun(c):
        return parse_streams.parse_alter(c)
    if c.accept("SOURCE"):
        return parse_sources.parse_alter(c)
    if c.accept("WAREHOUSE"):
        return parse_warehouse.parse_alter(c)
    if not c.accept("TABLE"):
        return None
    table = c.read_name()
    if c.accept("ADD", "COLUMNS", "FROM", "SOURCE"):
        return WidenMirror(table, c.read_names_in_brackets())
    if c.accept("ADD"):
        return _parse_add_columns(c, table)
    if c.accept("DROP"):
        return _parse_drop_columns(c, table)
    if c.accept("RENAME", "TO"):
        return RenameTable(table, c.read_name())
    if c.accept("RENAME"):
        c.accept("COLUMN")
        old = c.read_identifier()
        c.expect("TO")
        return RenameColumn(table, old, c.read_identifier())
    if c.accept("ALTER") or c.accept("CHANGE") or c.accept("MODIFY"):
        c.accept("COLUMN")
        return _parse_alter_column(c, table)
    c.fail("expected ADD, DROP, RENAME or ALTER COLUMN")


def _parse_add_columns(c: Cursor, table: Name) -> AddColumns:
    several = c.accept("COLUMNS")
    if not several:
        c.accept("COLUMN")
    if c.peek() in ("PRIMARY", "CONSTRAINT", "FOREIGN", "UNIQUE", "CHECK") and c.peek(1) != "":
        raise UnsupportedError("adding a constraint", "Create a new table with it and copy the rows.")
    quiet = c.accept("IF", "NOT", "EXISTS")
    if c.peek() != "(":
        columns = [_parse_column(c)]
    else:
        c.expect("(")
        columns = [_parse_column(c)]
        while c.accept(","):
            columns.append(_parse_column(c))
        c.expect(")")
    if c.peek() in ("FIRST", "AFTER"):
        raise UnsupportedError(
            f"{c.peek()} in ADD COLUMN", "New columns come last; order them in your SELECT."
        )
    return AddColumns(table, tuple(columns), quiet)


def _parse_drop_columns(c: Cursor, table: Name) -> DropColumns:
    c.accept("COLUMNS") or c.accept("COLUMN")
    quiet = c.accept("IF", "EXISTS")
    if c.peek() == "(":
        return DropColumns(table, c.read_names_in_brackets(), quiet)
    names = [c.read_identifier()]
    while c.accept(","):
        names.append(c.read_identifier())
    return DropColumns(table, tuple(names), quiet)


def _parse_alter_column(c: Cursor, table: Name) -> AlterColumn:
    change = AlterColumn(table, c.read_identifier())
    if c.accept("SET", "NOT", "NULL"):
        return replace(change, nullable=False)
    if c.accept("DROP", "NOT", "NULL"):
        return replace(change, nullable=True)
    if c.accept("SET", "DEFAULT"):
        if c.done:
            c.fail("expected a value after DEFAULT")
        return replace(change, default=c.read_rest())
    if c.accept("DROP", "DEFAULT"):
        return replace(change, drop_default=True)
    if c.accept("COMMENT"):
        return replace(change, comment=c.read_string())
    if c.accept("TYPE") or c.accept("SET", "DATA", "TYPE"):
        return replace(change, type=_parse_type(c))
    c.fail("expected TYPE, SET or DROP NOT NULL, SET or DROP DEFAULT, or COMMENT")
