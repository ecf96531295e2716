"""A folder or the address of a catalog -> an open connection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_trickle.lake.cache.column_index import ColumnIndex
from spark_trickle.lake.catalog.lease import SessionLease
from spark_trickle.lake.storage.paths import is_local_address, local_folder
from spark_trickle.lake.warehouse import open_warehouse
from spark_trickle.model.room import room_of_tail
from spark_trickle.model.table import DEFAULT_SCHEMA
from spark_trickle.observe import functions as observe
from spark_trickle.refresh.functions import FUNCTIONS
from spark_trickle.session.shared_folder import require_shared_folder
from spark_trickle.session.trickle import Trickle
from spark_trickle.settings import gather_settings
from spark_trickle.spark.session import open_session
from spark_trickle.spark.view_cache import ViewCache
from spark_trickle.sql.dialect.depth import make_room
from spark_trickle.txn.tail import Tails
from spark_trickle.txn.work import Place


def connect(
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    settings: Mapping[str, Any] | None = None,
    data_path: str | None = None,
    adopt: bool = False,
) -> Trickle:
    """Open a warehouse, or create it: a folder, or the SQLAlchemy address of a catalog with `data_path`.

    With `adopt`, a catalog and a data folder that do not match are connected, after a restore or a move.
    """
    make_room()
    place = os.fspath(path)
    file = Path(local_folder(place)) / "trickle.toml" if is_local_address(place) else None
    chosen = gather_settings(file, os.environ, settings or {})
    warehouse = open_warehouse(path, data_path, chosen.catalog_timeout, adopt)
    session = open_session(spark)
    require_shared_folder(session, warehouse.storage)
    keep = timedelta(minutes=chosen.reader_lease_minutes)
    lease = SessionLease(warehouse.engine, warehouse.storage.session_id, keep, warehouse.read_only)
    tails = Tails(warehouse, room_of_tail(chosen))
    views = ViewCache(chosen.cache_entries)
    warehouse.storage.recent.resize(int(chosen.cache_megabytes * 2**20))
    functions = {**FUNCTIONS, **observe.FUNCTIONS}
    index = ColumnIndex(warehouse.storage, int(chosen.index_megabytes * 2**20))
    return Trickle(Place(warehouse, session, chosen, DEFAULT_SCHEMA, lease, tails, views, index, functions))
