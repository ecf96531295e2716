"""A role and the tables it is to capture -> the statements with which an administrator gives it just enough.

With triggers the role reads the tables, puts triggers on them, and owns the schema of the buffers, nothing
else: it cannot write to the tables. The application needs nothing, because the triggers act with the rights
of the role. For the log it needs the attribute REPLICATION, and who owns the tables creates the publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import sql

from spark_trickle.sources.postgres.capture import SCHEMA
from spark_trickle.sources.postgres.discover import ServerRelation, SourceTable
from spark_trickle.sources.postgres.run import Statement


def trigger_rights(role: str, tables: Sequence[SourceTable], schema: str = SCHEMA) -> list[Statement]:
    """For capture by triggers; the role exists already and may connect."""
    return [_own_schema(role, schema), *_compose_grants(role, tables, "SELECT, TRIGGER")]


def log_rights(role: str, tables: Sequence[SourceTable], schema: str = SCHEMA) -> list[Statement]:
    """For capture from the log; `publish_tables` is then for the owner of the tables to call.

    The schema holds only the table that says which copy of a warehouse is served.
    """
    return [
        sql.SQL("ALTER ROLE {} REPLICATION").format(sql.Identifier(role)),
        _own_schema(role, schema),
        *_compose_grants(role, tables, "SELECT"),
    ]


def _own_schema(role: str, schema: str) -> Statement:
    create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}")
    return create.format(sql.Identifier(schema), sql.Identifier(role))


def _compose_grants(role: str, tables: Iterable[SourceTable], rights: str) -> list[Statement]:
    name = sql.Identifier(role)
    relations: list[ServerRelation] = [r for t in tables for r in (t, *t.partitions)]
    schemas = sorted({r.schema for r in relations})
    return [
        *(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(s), name) for s in schemas),
        *(sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(rights), r.sql, name) for r in relations),
    ]
