"""A capture of some columns -> one of more, as an attach installs it when more columns are asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from spark_trickle.sources.postgres.capture import Capture, plan_capture
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable, describe_tables
from spark_trickle.sources.postgres.install import LOCK_SECONDS, install_capture


def widen_installed(
    connection: Connection, capture: Capture, more: Collection[str], lock_seconds: float = LOCK_SECONDS
) -> Capture:
    """Capture more columns. The buffer holds NULL for them in older rows: copy the table again afterwards."""
    (table,) = describe_tables(connection, [capture.source.oid])
    wider = widen_capture(capture, table, more)
    install_capture(connection, wider, lock_seconds)
    return wider


def widen_capture(capture: Capture, table: SourceTable, more: Collection[str]) -> Capture:
    """The same capture with more columns at the end, so that bits written before keep their meaning."""
    new = plan_capture(table, {*more, *capture.column_names}, capture.mode, capture.schema)
    added = tuple(c for c in new.columns if c.name not in capture.column_names)
    kept = tuple(table.column(name) for name in capture.column_names)
    return replace(capture, source=table, columns=kept + added, mode=new.mode)
