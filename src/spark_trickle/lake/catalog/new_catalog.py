"""An empty database -> a catalog with its first snapshot; an older catalog -> one of this version."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, insert, inspect, select

from spark_trickle.errors import VersionError, WarehouseError
from spark_trickle.lake.catalog import migrations
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import hide_secrets, open_reader, open_writer
from spark_trickle.lake.storage.data_folder import BESIDE, Request, refuse_used_folder
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.model.table import DEFAULT_SCHEMA, HIDDEN_SCHEMA


def prepare_catalog(engine: Engine, request: Request) -> None:
    """Bring the catalog to our version."""
    with open_reader(engine) as connection:
        ready = migrations.is_current(connection)
    if not ready and request.read_only:
        raise WarehouseError(
            f"the catalog {hide_secrets(engine.url)} must be upgraded, but is not writable",
            "Open it once with write access.",
        )
    if not ready:
        with open_writer(engine) as connection:
            _upgrade_or_create(connection, request)
    with open_reader(engine) as connection:
        _require_version(connection)


def _upgrade_or_create(connection: Connection, request: Request) -> None:
    if migrations.is_current(connection):  # another process was faster
        return
    has_table = inspect(connection).has_table
    fresh = not has_table(migrations.VERSION_TABLE)
    if fresh and has_table("ducklake_metadata"):
        raise WarehouseError(
            "the catalog belongs to a DuckLake that spark-trickle did not create",
            "Choose an empty folder or database for the warehouse.",
        )
    if fresh:
        refuse_used_folder(request)
    migrations.upgrade_catalog(connection)
    if fresh:
        _create_first_snapshot(connection, request.default_root)
        beside = str(request.asked is None).lower()
        connection.execute(insert(s.trickle_info).values(key=BESIDE, value=beside))


def _create_first_snapshot(connection: Connection, root: str) -> None:
    """The first snapshot of a new warehouse: an empty schema of the user's and our hidden one."""
    values = {
        "version": s.DUCKLAKE_VERSION,
        "created_by": "spark-trickle",
        "data_path": root.rstrip("/") + "/",
        "encrypted": "false",
    }
    connection.execute(insert(s.info), [{"key": k, "value": v} for k, v in values.items()])
    connection.execute(
        insert(s.snapshot).values(
            snapshot_id=0,
            snapshot_time=datetime.now(UTC),
            schema_version=0,
            next_catalog_id=2,
            next_file_id=0,
        )
    )
    made = f'created_schema:"{DEFAULT_SCHEMA}",created_schema:"{HIDDEN_SCHEMA}"'
    connection.execute(insert(s.snapshot_changes).values(snapshot_id=0, changes_made=made))
    paths = {DEFAULT_SCHEMA: "views/", HIDDEN_SCHEMA: TABLES_FOLDER}
    for number, (name, path) in enumerate(paths.items()):
        connection.execute(
            insert(s.namespace).values(
                schema_id=number,
                schema_uuid=str(uuid.uuid4()),
                begin_snapshot=0,
                schema_name=name,
                path=path,
                path_is_relative=True,
            )
        )


def _require_version(connection: Connection) -> None:
    found = connection.execute(select(s.info.c.value).where(s.info.c.key == "version")).scalar_one()
    if found != s.DUCKLAKE_VERSION:
        raise VersionError(f"DuckLake {found}", f"DuckLake {s.DUCKLAKE_VERSION}")
