"""The catalog's versions, and how to get from one to the next."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from spark_trickle.errors import VersionError

VERSION_TABLE = "trickle_version"
KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")
HEAD = KNOWN[-1]


def is_current(connection: Connection) -> bool:
    """Whether the catalog has exactly our version; a newer one is refused."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return False
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if found is not None and found not in KNOWN:
        raise VersionError(str(found), HEAD)
    return found == HEAD


def upgrade_catalog(connection: Connection) -> None:
    # alembic takes a quarter of a second to import, and an up-to-date catalog does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
