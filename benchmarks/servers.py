"""Settings -> a PostgreSQL server that is started with them, and removed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres.server import Server, new_server


@contextmanager
def tuned_server(*settings: str) -> Iterator[Server]:
    """Nothing that a server does by itself, such as checkpoints of a small log, should be measured."""
    server = new_server()
    try:
        with server.connect() as admin:
            for setting in ("max_wal_size = '4GB'", *settings):
                admin.execute(f"ALTER SYSTEM SET {setting}".encode())
        server.stop()
        server.start()
        yield server
    finally:
        server.remove()
