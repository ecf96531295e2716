"""The catalog's tables: DuckLake 1.0 as its clients expect it, and our own `trickle_*` beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    MetaData,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TIMESTAMP

DUCKLAKE_VERSION = "1.0"


class UtcTime(TypeDecorator[datetime]):
    """An instant: timestamptz in PostgreSQL, and in SQLite the text that DuckDB writes there."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(String() if dialect.name == "sqlite" else TIMESTAMP(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        return datetime.fromisoformat(value).astimezone(UTC)


FLAG = Boolean().with_variant(BigInteger(), "sqlite")
UUID = String().with_variant(postgresql.UUID(as_uuid=False), "postgresql")

metadata = MetaData()


def _int(*names: str) -> list[Column[Any]]:
    return [Column(name, BigInteger) for name in names]


def _text(*names: str) -> list[Column[Any]]:
    return [Column(name, String) for name in names]


def _flag(*names: str) -> list[Column[Any]]:
    return [Column(name, FLAG) for name in names]


def _id(name: str) -> list[Column[Any]]:
    return [Column(name, BigInteger, primary_key=True, autoincrement=False)]


def _lifetime() -> list[Column[Any]]:
    return _int("begin_snapshot", "end_snapshot")


info = Table(
    "ducklake_metadata",
    metadata,
    Column("key", String, nullable=False),
    Column("value", String, nullable=False),
    *_text("scope"),
    *_int("scope_id"),
)
snapshot = Table(
    "ducklake_snapshot",
    metadata,
    *_id("snapshot_id"),
    Column("snapshot_time", UtcTime),
    *_int("schema_version", "next_catalog_id", "next_file_id"),
)
snapshot_changes = Table(
    "ducklake_snapshot_changes",
    metadata,
    *_id("snapshot_id"),
    *_text("changes_made", "author", "commit_message", "commit_extra_info"),
)
namespace = Table(
    "ducklake_schema",
    metadata,
    *_id("schema_id"),
    Column("schema_uuid", UUID),
    *_lifetime(),
    *_text("schema_name", "path"),
    *_flag("path_is_relative"),
)
table = Table(
    "ducklake_table",
    metadata,
    *_int("table_id"),
    Column("table_uuid", UUID),
    *_lifetime(),
    *_int("schema_id"),
    *_text("table_name", "path"),
    *_flag("path_is_relative"),
)
view = Table(
    "ducklake_view",
    metadata,
    *_int("view_id"),
    Column("view_uuid", UUID),
    *_lifetime(),
    *_int("schema_id"),
    *_text("view_name", "dialect", "sql", "column_aliases"),
)
column = Table(
    "ducklake_column",
    metadata,
    *_int("column_id"),
    *_lifetime(),
    *_int("table_id", "column_order"),
    *_text("column_name", "column_type", "initial_default", "default_value"),
    *_flag("nulls_allowed"),
    *_int("parent_column"),
    *_text("default_value_type", "default_value_dialect"),
)
data_file = Table(
    "ducklake_data_file",
    metadata,
    *_id("data_file_id"),
    *_int("table_id"),
    *_lifetime(),
    *_int("file_order"),
    *_text("path"),
    *_flag("path_is_relative"),
    *_text("file_format"),
    *_int("record_count", "file_size_bytes", "footer_size", "row_id_start", "partition_id"),
    *_text("encryption_key"),
    *_int("mapping_id", "partial_max"),
)
file_stats = Table(
    "ducklake_file_column_stats",
    metadata,
    *_int("data_file_id", "table_id", "column_id", "column_size_bytes", "value_count", "null_count"),
    *_text("min_value", "max_value"),
    *_flag("contains_nan"),
    *_text("extra_stats"),
)
table_stats = Table(
    "ducklake_table_stats", metadata, *_int("table_id", "record_count", "next_row_id", "file_size_bytes")
)
scheduled = Table(
    "ducklake_files_scheduled_for_deletion",
    metadata,
    *_int("data_file_id"),
    *_text("path"),
    *_flag("path_is_relative"),
    Column("schedule_start", UtcTime),
)
schema_versions = Table(
    "ducklake_schema_versions", metadata, *_int("begin_snapshot", "schema_version", "table_id")
)
column_mapping = Table("ducklake_column_mapping", metadata, *_int("mapping_id", "table_id"), *_text("type"))
name_mapping = Table(
    "ducklake_name_mapping",
    metadata,
    *_int("mapping_id", "column_id"),
    *_text("source_name"),
    *_int("target_field_id", "parent_column"),
    *_flag("is_partition"),
)

# Parts of DuckLake that we leave empty; its clients still look for them.
Table(
    "ducklake_file_variant_stats",
    metadata,
    *_int("data_file_id", "table_id", "column_id"),
    *_text("variant_path", "shredded_type"),
    *_int("column_size_bytes", "value_count", "null_count"),
    *_text("min_value", "max_value"),
    *_flag("contains_nan"),
    *_text("extra_stats"),
)
Table(
    "ducklake_delete_file",
    metadata,
    *_id("delete_file_id"),
    *_int("table_id"),
    *_lifetime(),
    *_int("data_file_id"),
    *_text("path"),
    *_flag("path_is_relative"),
    *_text("format"),
    *_int("delete_count", "file_size_bytes", "footer_size"),
    *_text("encryption_key"),
    *_int("partial_max"),
)
Table(
    "ducklake_table_column_stats",
    metadata,
    *_int("table_id", "column_id"),
    *_flag("contains_null", "contains_nan"),
    *_text("min_value", "max_value", "extra_stats"),
)
Table("ducklake_tag", metadata, *_int("object_id"), *_lifetime(), *_text("key", "value"))
Table("ducklake_column_tag", metadata, *_int("table_id", "column_id"), *_lifetime(), *_text("key", "value"))
Table("ducklake_partition_info", metadata, *_int("partition_id", "table_id"), *_lifetime())
Table(
    "ducklake_partition_column",
    metadata,
    *_int("partition_id", "table_id", "partition_key_index", "column_id"),
    *_text("transform"),
)
Table(
    "ducklake_file_partition_value",
    metadata,
    *_int("data_file_id", "table_id", "partition_key_index"),
    *_text("partition_value"),
)
Table(
    "ducklake_inlined_data_tables", metadata, *_int("table_id"), *_text("table_name"), *_int("schema_version")
)
Table("ducklake_macro", metadata, *_int("schema_id", "macro_id"), *_text("macro_name"), *_lifetime())
Table("ducklake_macro_impl", metadata, *_int("macro_id", "impl_id"), *_text("dialect", "sql", "type"))
Table(
    "ducklake_macro_parameters",
    metadata,
    *_int("macro_id", "impl_id", "column_id"),
    *_text("parameter_name", "parameter_type", "default_value", "default_value_type"),
)
Table("ducklake_sort_info", metadata, *_int("sort_id", "table_id"), *_lifetime())
Table(
    "ducklake_sort_expression",
    metadata,
    *_int("sort_id", "table_id", "sort_key_index"),
    *_text("expression", "dialect", "sort_direction", "null_order"),
)

# --- ours ----------------------------------------------------------------------------------------

trickle_info = Table("trickle_info", metadata, Column("key", String, primary_key=True), *_text("value"))
trickle_table = Table(
    "trickle_table",
    metadata,
    *_int("table_id"),
    *_lifetime(),
    *_text("schema_name", "table_name", "definition"),
)
trickle_view = Table(
    "trickle_view",
    metadata,
    *_int("view_id"),
    *_lifetime(),
    *_text("schema_name", "view_name", "definition"),
)
trickle_file = Table(
    "trickle_file",
    metadata,
    *_id("data_file_id"),
    *_int("table_id", "begin_snapshot"),
    *_text("role", "location"),
    *_int("deletes", "as_of", "memory_bytes"),
    *_flag("whole", "updates", "by_name"),
    *_text("outside"),
)
trickle_change = Table(
    "trickle_change",
    metadata,
    Column("snapshot_id", BigInteger, nullable=False),
    Column("table_id", BigInteger, nullable=False),
    *_text("change"),
)
trickle_lease = Table(
    "trickle_lease",
    metadata,
    Column("session_id", String, primary_key=True),
    *_text("host"),
    *_int("process_id", "reads_since"),
    Column("expires", UtcTime),
)
trickle_turn = Table(
    "trickle_turn",
    metadata,
    Column("ticket", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    *_text("session_id", "host"),
    *_int("process_id"),
    Column("expires", UtcTime),
)

trickle_ended_session = Table(
    "trickle_ended_session",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("ended", UtcTime),
)

trickle_stream = Table(
    "trickle_stream",
    metadata,
    *_id("table_id"),
    *_int("frontier"),
    *_text("status", "error"),
    *_int("errors_in_a_row", "streams_frontier"),
    Column("retry_at", UtcTime),
)
trickle_refresh = Table(
    "trickle_refresh",
    metadata,
    *_int("table_id"),
    Column("started", UtcTime),
    *_text("action", "reason"),
    *_int("rows_inserted", "rows_deleted", "delta_rows", "snapshot_id"),
    *_text("phases", "error"),
    *_int("source_rows"),
    Column("duration_ms", Float),
    *_text("initiated_by"),
    Column("waited_ms", Float),
    *_text("apply", "executed"),
)
trickle_experience = Table("trickle_experience", metadata, *_id("table_id"), *_text("runs"))
trickle_read = Table(
    "trickle_read",
    metadata,
    *_id("table_id"),
    *_int("reads"),
    Column("first_read", UtcTime),
    Column("last_read", UtcTime),
)
trickle_running = Table(
    "trickle_running", metadata, *_id("table_id"), *_text("session_id"), Column("started", UtcTime)
)
trickle_scheduler = Table(
    "trickle_scheduler",
    metadata,
    *_id("id"),
    *_text("session_id", "host"),
    *_int("process_id"),
    Column("expires", UtcTime),
    *_flag("paused"),
)
trickle_gate = Table("trickle_gate", metadata, *_id("table_id"), Column("closed", UtcTime))
trickle_watermark = Table(
    "trickle_watermark",
    metadata,
    *_id("table_id"),
    Column("watermark", UtcTime),
    *_int("snapshot_id"),
    Column("advanced", UtcTime),
)
trickle_watermark_group = Table(
    "trickle_watermark_group",
    metadata,
    Column("name", String, primary_key=True),
    *_text("table_ids"),
    Column("tolerance_seconds", Float),
)
trickle_alert = Table(
    "trickle_alert", metadata, Column("raised", UtcTime), *_text("event", "table_name", "message")
)

trickle_source = Table(
    "trickle_source",
    metadata,
    Column("name", String, primary_key=True),
    *_text("kind", "options"),
    Column("attached", UtcTime),
    *_int("version"),
    *_text("state"),
)
trickle_mirror = Table(
    "trickle_mirror", metadata, *_id("table_id"), *_text("source", "status", "reason", "position")
)
trickle_published = Table(
    "trickle_published",
    metadata,
    *_id("table_id"),
    *_text("source", "schema_name", "table_name"),
    *_int("reached"),
    Column("applied", UtcTime),
    *_text("error", "options"),
)

Index("trickle_by_refreshed_table", trickle_refresh.c.table_id, trickle_refresh.c.started)
Index("trickle_by_table_file", data_file.c.table_id, data_file.c.begin_snapshot)
Index("trickle_by_ended_file", data_file.c.end_snapshot)
Index("trickle_by_file_stats", file_stats.c.data_file_id)
Index("trickle_by_table_stats", table_stats.c.table_id)
Index("trickle_by_column", column.c.table_id)
Index("trickle_by_table", trickle_table.c.table_id)
Index("trickle_by_table_feed", trickle_file.c.table_id, trickle_file.c.begin_snapshot)
Index("trickle_by_change", trickle_change.c.snapshot_id)
