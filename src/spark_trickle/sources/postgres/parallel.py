"""A table at one moment -> queries that several connections ask side by side; each row answers exactly one.

Whoever exports the moment keeps its transaction open until all of them are through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from psycopg import sql

from spark_trickle.errors import SourceSetupError
from spark_trickle.sources.postgres.connect import SESSION, Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.ranges import compose_own_rows
from spark_trickle.sources.postgres.run import Statement, read_rows, read_value
from spark_trickle.sources.postgres.types import MappedColumn

DRIVER = "org.postgresql.Driver"
_FETCHED = "10000"  # rows at a time; more than 0, so that Spark begins a transaction before it asks


@dataclass(frozen=True)
class SharedRead:
    """`setup` brings a new transaction to the moment; the columns of the queries are texts, in our order."""

    setup: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Endpoint:
    """Where a server is and who asks; the password is never printed."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    sslmode: str = ""


def plan_shared_read(
    connection: Connection, table: SourceTable, columns: Sequence[MappedColumn], pages: int
) -> SharedRead:
    """Queries for about so many pages each; inside of `open_snapshot`."""
    exported = read_value(connection, sql.SQL("SELECT pg_export_snapshot()"))
    settings = [sql.SQL("SET {} = {}").format(sql.Identifier(n), v) for n, v in SESSION.items()]
    # They come before the snapshot, which must be the first that asks for rows.
    moment = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(exported)
    level = sql.SQL("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    setup = sql.SQL("; ").join([level, moment, *settings])
    texts = sql.SQL(", ").join(
        _TEXT.format(value=sql.Identifier("t", c.name), name=sql.Identifier(f"c{n}"))
        for n, c in enumerate(columns)
    )
    query = sql.SQL("SELECT {texts} FROM {rows} AS t WHERE {part}")
    return SharedRead(
        setup.as_string(connection),
        tuple(
            query.format(texts=texts, rows=compose_own_rows(table), part=part).as_string(connection)
            for part in compose_parts(connection, table, pages)
        ),
    )


def compose_parts(connection: Connection, table: SourceTable, pages: int) -> list[Statement]:
    """Conditions of which each row meets one: places in the file of the table, or of one of its leaves."""
    leaves = [p.oid for p in table.partitions] if table.kind == "p" else [table.oid]
    sizes = dict(read_rows(connection, _PAGES.format(sql.Literal(leaves)))) if leaves else {}
    found: list[Statement] = []
    for leaf in leaves:
        starts = list(range(0, max(sizes.get(leaf, 0), 1), pages))
        for n, start in enumerate(starts):
            conditions = [sql.SQL("t.ctid >= {}::tid").format(f"({start},0)")]
            if n + 1 < len(starts):  # the last one has no end: the file may have grown since it was measured
                conditions.append(sql.SQL("t.ctid < {}::tid").format(f"({starts[n + 1]},0)"))
            if table.kind == "p":
                conditions.append(sql.SQL("t.tableoid = {}::oid").format(leaf))
            found.append(sql.SQL(" AND ").join(conditions))
    return found or [sql.SQL("false")]


# As COPY and the log write it: a cast to text is another thing for boolean, char(n) and inet. Nulls are
# counted, because IS NULL is also true for a composite of nothing but nulls.
_TEXT = sql.SQL("CASE WHEN num_nulls({value}) = 0 THEN concat({value}) END AS {name}")

_PAGES = sql.SQL("""
    SELECT oid::int8, pg_relation_size(oid) / current_setting('block_size')::int8
    FROM pg_class WHERE oid = ANY ({}::oid[])
""")


def find_endpoint(connection: Connection) -> Endpoint:
    info = connection.info
    mode = info.get_parameters().get("sslmode", "")
    return Endpoint(info.host, info.port, info.dbname, info.user, info.password, mode)


def jdbc_options(there: Endpoint, read: SharedRead) -> dict[str, str]:
    """The options of Spark's jdbc source, secrets included: never print or keep them."""
    if not there.host or there.host.startswith(("/", "@")):
        raise SourceSetupError(
            "executors cannot reach a source through a socket of this machine",
            "Put the host name of the source into its dsn, or leave out the option copy.",
        )
    host = f"[{there.host}]" if ":" in there.host else there.host
    mode = f"?sslmode={_escape_text(there.sslmode)}" if there.sslmode else ""
    return {
        "url": f"jdbc:postgresql://{host}:{there.port}/{_escape_text(there.database)}{mode}",
        "user": there.user,
        "password": there.password,
        "driver": DRIVER,
        "ApplicationName": "spark-trickle copy",
        "fetchsize": _FETCHED,
        "sessionInitStatement": read.setup,
    }


def _escape_text(text: str) -> str:
    return quote(text, safe="")
