"""Columns of a stream table whose type grew -> the same columns of the published table."""

from __future__ import annotations

import re
from collections.abc import Mapping

from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.postgres.run import execute_statement
from spark_trickle.targets.postgres.target import COMMA, Target, pg_type

_INTEGERS = ("smallint", "integer", "bigint")
_TEXT = re.compile(r"character varying\((\d+)\)")
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def holds_all_of(wider: str, narrower: str) -> bool:
    """Whether a type of PostgreSQL holds each value of another one unchanged."""
    if wider in _INTEGERS and narrower in _INTEGERS:
        return _INTEGERS.index(wider) >= _INTEGERS.index(narrower)
    if old := _TEXT.fullmatch(narrower):
        new = _TEXT.fullmatch(wider)
        return wider == "text" or (new is not None and int(new[1]) >= int(old[1]))
    if (old := _NUMERIC.fullmatch(narrower)) and (new := _NUMERIC.fullmatch(wider)):
        (p, s), (q, r) = ((int(m[1]), int(m[2])) for m in (old, new))
        return r >= s and q - r >= p - s
    return (narrower, wider) == ("real", "double precision")


def find_wider(target: Target, there: Mapping[str, str]) -> dict[str, str]:
    """The columns that are to grow, with their new types; `there` are the types that the table has."""
    wanted = {c.name: pg_type(c.type) for c in target.columns}
    return {
        name: kind
        for name, kind in wanted.items()
        if name in there and there[name] != kind and holds_all_of(kind, there[name])
    }


def widen_columns(connection: Connection, target: Target, wider: Mapping[str, str]) -> None:
    """In the transaction that brings the rows, so that readers see both or neither."""
    if wider:
        alter = sql.SQL("ALTER COLUMN {} TYPE {}")
        changes = [alter.format(sql.Identifier(name), sql.SQL(kind)) for name, kind in wider.items()]
        execute_statement(connection, sql.SQL("ALTER TABLE {} {}").format(target.sql, COMMA.join(changes)))
