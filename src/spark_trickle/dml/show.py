"""SHOW and DESCRIBE -> small DataFrames, in the columns that Spark uses for them."""

from __future__ import annotations

from fnmatch import fnmatchcase

from spark_trickle.dml.definitions import create_table_sql
from spark_trickle.errors import SettingError
from spark_trickle.model.table import HIDDEN_SCHEMA, Relation, View
from spark_trickle.model.types import sql_name
from spark_trickle.settings import list_setting_names, list_setting_rows
from spark_trickle.spark.frames import Frame, frame_of
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.query import run_query
from spark_trickle.txn.work import Work


def show_tables(work: Work, statement: s.ShowTables) -> Frame:
    columns = {"namespace": "string", "tableName": "string", "isTemporary": "boolean"}
    return frame_of(work.place.spark, columns, _list_tables(work, statement))


def show_schemas(work: Work, statement: s.ShowSchemas) -> Frame:
    names = sorted(x.name for x in work.catalog.schemas.values() if x.name != HIDDEN_SCHEMA)
    rows = [(n,) for n in names if _is_like(n, statement.pattern)]
    return frame_of(work.place.spark, {"namespace": "string"}, rows)


def show_columns(work: Work, statement: s.ShowColumns) -> Frame:
    relation = work.catalog.relation(statement.table, work.place.schema)
    return frame_of(
        work.place.spark, {"col_name": "string"}, [(c,) for c, _, _ in _list_columns(work, relation)]
    )


def show_create_table(work: Work, statement: s.ShowCreateTable) -> Frame:
    text = _create_sql(work.catalog.relation(statement.table, work.place.schema))
    return frame_of(work.place.spark, {"createtab_stmt": "string"}, [(text,)])


def describe_relation(work: Work, statement: s.Describe) -> Frame:
    columns = {"col_name": "string", "data_type": "string", "comment": "string"}
    rows = _describe_columns(work, work.catalog.relation(statement.table, work.place.schema))
    return frame_of(work.place.spark, columns, rows)


def show_settings(work: Work, statement: s.ShowSettings) -> Frame:
    columns = {"name": "string", "value": "string", "default": "string", "meaning": "string"}
    return frame_of(work.place.spark, columns, _list_settings(work, statement.name))


def _list_tables(work: Work, statement: s.ShowTables) -> list[tuple[str, str, bool]]:
    schema = work.catalog.schema(statement.schema or work.place.schema).name
    members = sorted(work.catalog.list_members(schema), key=lambda r: r.name)
    return [(r.schema, r.name, False) for r in members if _is_like(r.name, statement.pattern)]


def _is_like(name: str, pattern: str | None) -> bool:
    """Spark's patterns: * for anything, | between alternatives, case ignored."""
    if pattern is None:
        return True
    return any(fnmatchcase(name.lower(), p.strip().lower().replace("%", "*")) for p in pattern.split("|"))


def _list_columns(work: Work, relation: Relation) -> list[tuple[str, str, str | None]]:
    if isinstance(relation, View):
        schema = run_query(work, f"SELECT * FROM {quote(relation.schema)}.{quote(relation.name)}").schema
        return [(f.name, f.dataType.simpleString(), None) for f in schema.fields]
    return [(c.name, sql_name(c.type).lower(), c.comment) for c in relation.columns]


def _describe_columns(work: Work, relation: Relation) -> list[tuple[str, str, str | None]]:
    rows = _list_columns(work, relation)
    if isinstance(relation, View) or not relation.key:
        return rows
    keys = ", ".join(c.name for c in relation.key_columns)
    enforced = "enforced" if relation.key_enforced else "not enforced"
    return [*rows, ("", "", ""), ("# Primary key", f"({keys})", enforced)]


def _create_sql(relation: Relation) -> str:
    if not isinstance(relation, View):
        return create_table_sql(relation)
    columns = f" ({', '.join(quote(c) for c in relation.column_names)})" if relation.column_names else ""
    return f"CREATE VIEW {quote(relation.schema)}.{quote(relation.name)}{columns} AS {relation.sql}"


def _list_settings(work: Work, name: str | None) -> list[tuple[str, str, str, str]]:
    values = work.place.settings.as_dict()
    if name is not None and name.lower() not in values:
        raise SettingError(name, "there is no such setting", list_setting_names())
    return [(n, str(values[n]), d, m) for n, d, m in list_setting_rows() if name is None or n == name.lower()]
