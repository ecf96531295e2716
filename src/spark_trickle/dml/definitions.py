"""CREATE, DROP and ALTER -> definitions of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from spark_trickle.dml.assign import default_sql
from spark_trickle.dml.insert import guess_rows, insert_frame
from spark_trickle.errors import (
    AlreadyExistsError,
    InvalidDefinitionError,
    NotNullViolationError,
    QueryError,
    UnsupportedError,
    ValueTooLongError,
)
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model import commit
from spark_trickle.model.report import Result
from spark_trickle.model.table import (
    WEIGHT_ID,
    Table,
    TableColumn,
)
from spark_trickle.model.types import Scalar, can_widen, from_spark, refuse_collations, sql_name
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import collect, run_sql
from spark_trickle.spark.types import cast_name, parse_type
from spark_trickle.sql.lexer.words import quote, quote_literal
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import check_column_names, free_name, make_room, refuse_readers
from spark_trickle.txn.query import run_query
from spark_trickle.txn.work import Work

# --- tables --------------------------------------------------------------------------------------


def create_table(work: Work, statement: s.CreateTable) -> Result:
    schema, name = free_name(work, statement.name)
    query = run_query(work, statement.query) if statement.query is not None else None
    most = 0 if statement.query is None else guess_rows(work, statement.query)
    if not make_room(work, statement.name, "table", statement.replace, statement.if_not_exists):
        return Result()
    ids = count(WEIGHT_ID + 1)
    columns = _make_columns(work, statement.columns, ids) if statement.columns else query_columns(query, ids)
    check_column_names([c.name for c in columns])
    table = Table(
        id=work.new_id(),
        schema=schema,
        name=name,
        columns=columns,
        key=(),
        key_enforced=statement.key_enforced,
        path=new_table_path(name),
        next_column_id=next(ids),
        view_id=work.new_id() + 1,
    )
    table = _with_key(table, statement.key)
    work.define(commit.CreatedTable(table))
    if query is None:
        return Result()
    return insert_frame(work, table, query, (), most)


def _make_columns(
    work: Work, definitions: tuple[s.ColumnDefinition, ...], ids: Iterator[int]
) -> tuple[TableColumn, ...]:
    found = []
    for d in definitions:
        column_id = next(ids)
        kind = from_spark(d.name, parse_type(work.place.spark, d.name, d.type), ids)
        column = TableColumn(column_id, d.name, kind, d.nullable, d.default, None, d.comment)
        if d.default is not None:
            _default_value(work, column)
        found.append(column)
    return tuple(found)


def query_columns(query: Frame | None, ids: Iterator[int]) -> tuple[TableColumn, ...]:
    assert query is not None
    found = []
    for f in query.schema.jsonValue()["fields"]:
        column_id = next(ids)
        refuse_collations(f["name"], f["metadata"])
        found.append(TableColumn(column_id, f["name"], from_spark(f["name"], _make_nullable(f["type"]), ids)))
    return tuple(found)


def _make_nullable(spec: Any) -> Any:
    """A type whose parts may all be null: that a query has no nulls now is no promise for later rows."""
    if isinstance(spec, str):
        return spec
    if spec["type"] == "array":
        return {**spec, "elementType": _make_nullable(spec["elementType"]), "containsNull": True}
    if spec["type"] == "struct":
        fields = [{**f, "type": _make_nullable(f["type"]), "nullable": True} for f in spec["fields"]]
        return {**spec, "fields": fields}
    return spec


def _with_key(table: Table, names: tuple[str, ...]) -> Table:
    if not names:
        return table
    key = [table.column(n) for n in names]
    if len({c.id for c in key}) != len(key):
        raise InvalidDefinitionError("the primary key names a column twice", "Name each key column once.")
    for c in key:
        if not isinstance(c.type, Scalar):
            raise InvalidDefinitionError(
                f'key column "{c.name}" has type {sql_name(c.type)}',
                "A primary key needs columns of plain types.",
            )
    if table.key_enforced:
        for c in key:
            table = table.with_column(replace(c, nullable=False))
    return replace(table, key=tuple(c.id for c in key))


def _default_value(work: Work, column: TableColumn) -> str | None:
    """The default as text, computed now; this is also how a wrong default is found out."""
    assert column.default is not None
    if find_references(f"SELECT {column.default}"):
        raise InvalidDefinitionError(
            f'the default of column "{column.name}" reads a table', "A default must be a constant expression."
        )
    value = default_sql(column)
    text = (
        f"date_format({value}, 'yyyy-MM-dd HH:mm:ss.SSSSSSxxx')"
        if column.type == Scalar("timestamp")
        else value
    )
    try:
        frame = run_sql(
            work.place.spark, f"SELECT CAST({text} AS STRING) AS value, {value} IS NULL AS missing"
        )
        row = collect(frame).to_pylist()[0]
    except (QueryError, ValueTooLongError) as error:
        raise InvalidDefinitionError(
            f'the default of column "{column.name}" cannot be computed: {error.message}',
            f"Write a constant of type {sql_name(column.type)}.",
        ) from error
    return None if row["missing"] else str(row["value"])


def drop_table(work: Work, statement: s.DropTable) -> None:
    found = work.catalog.find(statement.name, work.place.schema)
    if found is None and statement.if_exists:
        return
    table = _find_movable(work, statement.name)
    leaving = (table, *work.catalog.find_parts(table))
    for each in leaving:
        refuse_readers(work, each, "dropped")
    for each in leaving:
        work.define(commit.DroppedTable(each))


def _find_movable(work: Work, name: s.Name) -> Table:
    """A table that may go or get another name: also a mirror, although nobody may change its rows."""
    table = work.catalog.table(name, work.place.schema)
    return table if table.mirror is not None and not table.mirror.part else work.find_target(name)


def rename_table(work: Work, statement: s.RenameTable) -> None:
    table = _find_movable(work, statement.table)
    target = statement.new if len(statement.new) == 2 else (table.schema, statement.new[-1])
    schema, name = free_name(work, target)
    _give_name(work, table, schema, name)
    for part in work.catalog.find_parts(table):
        assert part.mirror is not None
        _give_name(work, part, schema, f"{name}_{part.mirror.part}")


def _give_name(work: Work, table: Table, schema: str, name: str) -> None:
    existing = work.catalog.find((schema, name), schema)
    if existing is not None and existing.id != table.id:
        raise AlreadyExistsError("table", existing.full_name)
    work.define(commit.AlteredTable(table, replace(table, schema=schema, name=name)))


# --- columns -------------------------------------------------------------------------------------


def add_columns(work: Work, statement: s.AddColumns) -> None:
    table = work.find_target(statement.table)
    ids = count(table.next_column_id)
    wanted = [d for d in statement.columns if not (statement.if_not_exists and table.has_column(d.name))]
    if not wanted:
        return
    added = _make_columns(work, tuple(wanted), ids)
    check_column_names([*table.column_names, *(c.name for c in added)])
    columns = tuple(_for_old_rows(work, table, c) for c in added)
    for definition in statement.columns:
        if definition.primary_key:
            raise UnsupportedError(
                "adding a primary key", "Create a new table with the key and copy the rows."
            )
    new = replace(table, columns=table.columns + columns, next_column_id=next(ids))
    work.define(commit.AlteredTable(table, new))


def _for_old_rows(work: Work, table: Table, column: TableColumn) -> TableColumn:
    """Rows that are there already take the default as it is now."""
    initial = _default_value(work, column) if column.default is not None else None
    plain = isinstance(column.type, Scalar) and not column.type.name.startswith(
        ("binary", "interval", "time(")
    )
    if initial is not None and not plain:
        raise UnsupportedError(
            f"adding a {sql_name(column.type)} column with a default",
            "Add the column without a default, then UPDATE the rows and SET DEFAULT.",
        )
    if not column.nullable and initial is None and work.row_count(table):
        raise NotNullViolationError(table.full_name, column.name, ("existing rows would hold NULL",))
    return replace(column, initial=initial)


def drop_columns(work: Work, statement: s.DropColumns) -> None:
    table = work.find_target(statement.table)
    gone = set()
    for name in statement.columns:
        if statement.if_exists and not table.has_column(name):
            continue
        column = table.column(name)
        if column.id in table.key:
            raise InvalidDefinitionError(
                f'column "{column.name}" is part of the primary key', "Create a new table with another key."
            )
        gone.add(column.id)
    kept = tuple(c for c in table.columns if c.id not in gone)
    if not kept:
        raise InvalidDefinitionError("a table needs at least one column", "Use DROP TABLE to remove it all.")
    if gone:
        refuse_readers(work, table, "altered", frozenset(gone))
        work.define(commit.AlteredTable(table, replace(table, columns=kept)))


def rename_column(work: Work, statement: s.RenameColumn) -> None:
    table = work.find_target(statement.table)
    column = table.column(statement.old)
    new = table.with_column(replace(column, name=statement.new))
    check_column_names(list(new.column_names))
    work.define(commit.AlteredTable(table, new))


def alter_column(work: Work, statement: s.AlterColumn) -> None:
    table = work.find_target(statement.table)
    column = table.column(statement.column)
    new = column
    if statement.type is not None:
        refuse_readers(work, table, "altered", frozenset((column.id,)))
        new = replace(new, type=_widen_type(work, column, statement.type))
        new = replace(new, initial=_render_carry_over(work, column, new))
    if statement.nullable is not None:
        new = replace(new, nullable=_check_nullability(work, table, column, statement.nullable))
    if statement.default is not None:
        new = replace(new, default=statement.default)
        _default_value(work, new)
    if statement.drop_default:
        new = replace(new, default=None)
    if statement.comment is not None:
        new = replace(new, comment=statement.comment)
    work.define(commit.AlteredTable(table, table.with_column(new)))


def _widen_type(work: Work, column: TableColumn, text: str) -> Scalar:
    kind = from_spark(column.name, parse_type(work.place.spark, column.name, text), count(0))
    if not can_widen(column.type, kind):
        raise InvalidDefinitionError(
            f'column "{column.name}" cannot change from {sql_name(column.type)} to {sql_name(kind)}',
            "A type can only be widened: TINYINT to SMALLINT to INT to BIGINT, FLOAT to DOUBLE, "
            "DECIMAL to more digits, VARCHAR(n) to a longer one or STRING.",
        )
    assert isinstance(kind, Scalar)
    return kind


def _render_carry_over(work: Work, old: TableColumn, new: TableColumn) -> str | None:
    """What old rows hold, in the new type: the FLOAT 0.1 is not the DOUBLE 0.1."""
    if old.initial is None:
        return None
    value = f"CAST(CAST({quote_literal(old.initial)} AS {cast_name(old.type)}) AS {cast_name(new.type)})"
    return str(collect(run_sql(work.place.spark, f"SELECT CAST({value} AS STRING)")).column(0)[0].as_py())


def _check_nullability(work: Work, table: Table, column: TableColumn, nullable: bool) -> bool:
    if nullable and column.id in table.key and table.key_enforced:
        raise InvalidDefinitionError(
            f'column "{column.name}" is part of the primary key', "Key columns are always NOT NULL."
        )
    if not nullable:
        nulls = collect(work.rows(table).where(f"{quote(column.name)} IS NULL").limit(1))
        if nulls.num_rows:
            raise NotNullViolationError(table.full_name, column.name, ("existing rows hold NULL",))
    return nullable


def create_table_sql(table: Table) -> str:
    """The statement that would create a table again."""
    lines = []
    for c in table.columns:
        line = f"{quote(c.name)} {sql_name(c.type)}"
        line += "" if c.nullable else " NOT NULL"
        line += f" DEFAULT {c.default}" if c.default is not None else ""
        line += f" COMMENT {quote_literal(c.comment)}" if c.comment is not None else ""
        lines.append(line)
    if table.key:
        keys = ", ".join(quote(c.name) for c in table.key_columns)
        lines.append(f"PRIMARY KEY ({keys})" + ("" if table.key_enforced else " NOT ENFORCED"))
    body = ",\n  ".join(lines)
    return f"CREATE TABLE {quote(table.schema)}.{quote(table.name)} (\n  {body}\n)"
