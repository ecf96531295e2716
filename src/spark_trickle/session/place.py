"""USE and SET -> where the next statements of a connection run, and with which settings."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection


def use_schema(connection: WarehouseConnection, statement: s.Use) -> None:
    schema = connection.read().catalog.schema(statement.schema)
    connection.move_to(replace(connection.place, schema=schema.name))


def change_setting(connection: WarehouseConnection, statement: s.SetSetting) -> None:
    connection.require_open()
    place = connection.place
    settings = place.settings.with_values({statement.name.lower(): statement.value})
    connection.move_to(replace(place, settings=settings))
    place.views.resize(settings.cache_entries)
    place.storage.recent.resize(int(settings.cache_megabytes * 2**20))
    place.index.resize(int(settings.index_megabytes * 2**20))
