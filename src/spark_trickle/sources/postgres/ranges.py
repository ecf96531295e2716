"""A table with a key -> ranges of the key that can be copied one by one, each at its own moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.run import Statement, read_rows


@dataclass(frozen=True)
class KeyRange:
    """The rows with low <= key < high, each bound as the texts of the key's values; None is no bound."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    low: tuple[str, ...] | None
    high: tuple[str, ...] | None


WHOLE = KeyRange((), (), None, None)


def key_ranges(connection: Connection, table: SourceTable, rows_each: int) -> tuple[KeyRange, ...]:
    """Ranges that cover the table, also the rows to come; only one if its key has no order we know."""
    kinds = [table.column(name).type.plain for name in table.key]
    if not kinds or any(k.schema != "pg_catalog" and k.kind != "e" for k in kinds):
        return (WHOLE,)
    bounds = [None, *map(tuple, read_rows(connection, _compose_cuts(table, rows_each))), None]
    types = tuple(k.shown for k in kinds)
    return tuple(KeyRange(table.key, types, low, high) for low, high in pairwise(bounds))


def _compose_cuts(table: SourceTable, rows_each: int) -> Statement:
    key = [sql.Identifier(name) for name in table.key]
    return sql.SQL(
        "SELECT {texts} FROM (SELECT {key}, row_number() OVER (ORDER BY {key}) - 1 AS {n} FROM {table}) AS k "
        "WHERE {n} > 0 AND {n} % {each} = 0 ORDER BY {n}"
    ).format(
        texts=sql.SQL(", ").join(sql.SQL("{}::text").format(name) for name in key),
        key=sql.SQL(", ").join(key),
        n=sql.Identifier("row number of spark-trickle"),
        table=compose_own_rows(table),
        each=rows_each,
    )


def compose_own_rows(table: SourceTable) -> Statement:
    """The rows that are the table's own: all partitions, but no children that merely inherit from it."""
    return sql.SQL("{} {}").format(sql.SQL("ONLY" if table.kind == "r" else ""), table.sql)


def compose_range(key_range: KeyRange | None, names: Mapping[str, str]) -> Statement:
    """The condition that a row lies in a range; `names` says what its columns are called there."""
    if key_range is None or not key_range.columns:
        return sql.SQL("true")
    key = sql.SQL(", ").join(sql.Identifier(names[c]) for c in key_range.columns)
    parts: list[Statement] = [sql.SQL("true")]
    for operator, bound in ((">=", key_range.low), ("<", key_range.high)):
        if bound is not None:
            values = sql.SQL(", ").join(
                sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(kind))
                for text, kind in zip(bound, key_range.types, strict=True)
            )
            parts.append(sql.SQL("({}) {} ({})").format(key, sql.SQL(operator), values))
    return sql.SQL(" AND ").join(parts)
