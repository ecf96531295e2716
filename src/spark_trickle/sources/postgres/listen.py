"""NOTIFY by our triggers -> whether something was committed since the last look."""

from __future__ import annotations

from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.run import run_statements, translate_errors


def listen_to(connection: Connection, channel: str) -> bool:
    """Hear of a channel from now on; whether that is new. What is heard is kept until somebody asks."""
    if connection.channel == channel:
        return False
    run_statements(connection, sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    connection.channel = channel
    return True


def await_notice(connection: Connection, seconds: float) -> bool:
    """Whether there was a notice, within some seconds; all that have come by then count as one."""
    with translate_errors(connection):
        heard = list(connection.notifies(timeout=seconds, stop_after=1))
        while heard and list(connection.notifies(timeout=0)):
            pass
        return bool(heard)
