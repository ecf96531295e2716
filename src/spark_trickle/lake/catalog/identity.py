"""The identity of a warehouse: an id that its catalog, its data folder and attached systems store.

A copy of a warehouse has the id of the original, as a restored backup should. Whoever wants both to live
gives one of them an id of its own.
"""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, select, update

from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.storage.marker import MarkerFile

_KEY = "warehouse_id"


def read_identity(connection: Connection) -> str:
    query = select(s.trickle_info.c.value).where(s.trickle_info.c.key == _KEY)
    return str(connection.execute(query).scalar_one())


def renew_identity(connection: Connection, marker: MarkerFile) -> str:
    """Make this warehouse another one than those it was copied from, in its catalog and its data folder."""
    fresh = uuid.uuid4().hex
    connection.execute(update(s.trickle_info).where(s.trickle_info.c.key == _KEY).values(value=fresh))
    marker.claim(fresh, read.read_newest(connection))
    return fresh
