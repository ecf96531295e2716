"""A catalog -> the site of its warehouse: what tells a copy of it from the original."""

from __future__ import annotations

import os
import socket

from sqlalchemy import Engine, text

from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.source import Site

# Programs reach one server by many names, so it is known by what it says of itself.
_SERVER = text(
    "SELECT coalesce(host(inet_server_addr()), ''), "
    "(SELECT system_identifier::text FROM pg_control_system()), current_database()"
)


def find_site(engine: Engine) -> Site:
    """The host and the file of a catalog in SQLite; the server and the database of one in PostgreSQL."""
    if engine.dialect.name == "sqlite":
        return Site(socket.gethostname(), os.path.realpath(engine.url.database or ""))
    with open_reader(engine) as connection:
        host, server, database = connection.execute(_SERVER).one()
    return Site(host, f"postgresql server {server}, database {database}")
