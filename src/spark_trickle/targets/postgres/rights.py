"""A role that is to publish -> the statements with which an administrator gives it just enough."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from spark_trickle.sources.postgres.run import Statement
from spark_trickle.targets.postgres.target import LEDGER


def publish_rights(role: str, schemas: Sequence[str], ledger: str = LEDGER) -> list[Statement]:
    """Schemas of its own for the tables and for the ledger, and nothing else but temporary tables."""
    name = sql.Identifier(role)
    create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}")
    return [create.format(sql.Identifier(s), name) for s in sorted({*schemas, ledger})]
