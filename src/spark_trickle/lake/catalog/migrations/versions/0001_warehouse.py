"""The first catalog: DuckLake 1.0 and the tables of spark-trickle."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

FLAG = sa.Boolean().with_variant(sa.BigInteger(), "sqlite")
UUID = sa.String().with_variant(postgresql.UUID(as_uuid=False), "postgresql")
TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "ducklake_column",
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("column_order", sa.BigInteger()),
        sa.Column("column_name", sa.String()),
        sa.Column("column_type", sa.String()),
        sa.Column("initial_default", sa.String()),
        sa.Column("default_value", sa.String()),
        sa.Column("nulls_allowed", FLAG),
        sa.Column("parent_column", sa.BigInteger()),
        sa.Column("default_value_type", sa.String()),
        sa.Column("default_value_dialect", sa.String()),
    )
    op.create_index("trickle_by_column", "ducklake_column", ["table_id"])
    op.create_table(
        "ducklake_column_mapping",
        sa.Column("mapping_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("type", sa.String()),
    )
    op.create_table(
        "ducklake_column_tag",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("key", sa.String()),
        sa.Column("value", sa.String()),
    )
    op.create_table(
        "ducklake_data_file",
        sa.Column("data_file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("file_order", sa.BigInteger()),
        sa.Column("path", sa.String()),
        sa.Column("path_is_relative", FLAG),
        sa.Column("file_format", sa.String()),
        sa.Column("record_count", sa.BigInteger()),
        sa.Column("file_size_bytes", sa.BigInteger()),
        sa.Column("footer_size", sa.BigInteger()),
        sa.Column("row_id_start", sa.BigInteger()),
        sa.Column("partition_id", sa.BigInteger()),
        sa.Column("encryption_key", sa.String()),
        sa.Column("mapping_id", sa.BigInteger()),
        sa.Column("partial_max", sa.BigInteger()),
        sa.PrimaryKeyConstraint("data_file_id"),
    )
    op.create_index("trickle_by_ended_file", "ducklake_data_file", ["end_snapshot"])
    op.create_index("trickle_by_table_file", "ducklake_data_file", ["table_id", "begin_snapshot"])
    op.create_table(
        "ducklake_delete_file",
        sa.Column("delete_file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("data_file_id", sa.BigInteger()),
        sa.Column("path", sa.String()),
        sa.Column("path_is_relative", FLAG),
        sa.Column("format", sa.String()),
        sa.Column("delete_count", sa.BigInteger()),
        sa.Column("file_size_bytes", sa.BigInteger()),
        sa.Column("footer_size", sa.BigInteger()),
        sa.Column("encryption_key", sa.String()),
        sa.Column("partial_max", sa.BigInteger()),
        sa.PrimaryKeyConstraint("delete_file_id"),
    )
    op.create_table(
        "ducklake_file_column_stats",
        sa.Column("data_file_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("column_size_bytes", sa.BigInteger()),
        sa.Column("value_count", sa.BigInteger()),
        sa.Column("null_count", sa.BigInteger()),
        sa.Column("min_value", sa.String()),
        sa.Column("max_value", sa.String()),
        sa.Column("contains_nan", FLAG),
        sa.Column("extra_stats", sa.String()),
    )
    op.create_index("trickle_by_file_stats", "ducklake_file_column_stats", ["data_file_id"])
    op.create_table(
        "ducklake_file_partition_value",
        sa.Column("data_file_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("partition_key_index", sa.BigInteger()),
        sa.Column("partition_value", sa.String()),
    )
    op.create_table(
        "ducklake_file_variant_stats",
        sa.Column("data_file_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("variant_path", sa.String()),
        sa.Column("shredded_type", sa.String()),
        sa.Column("column_size_bytes", sa.BigInteger()),
        sa.Column("value_count", sa.BigInteger()),
        sa.Column("null_count", sa.BigInteger()),
        sa.Column("min_value", sa.String()),
        sa.Column("max_value", sa.String()),
        sa.Column("contains_nan", FLAG),
        sa.Column("extra_stats", sa.String()),
    )
    op.create_table(
        "ducklake_files_scheduled_for_deletion",
        sa.Column("data_file_id", sa.BigInteger()),
        sa.Column("path", sa.String()),
        sa.Column("path_is_relative", FLAG),
        sa.Column("schedule_start", TIME),
    )
    op.create_table(
        "ducklake_inlined_data_tables",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("table_name", sa.String()),
        sa.Column("schema_version", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_macro",
        sa.Column("schema_id", sa.BigInteger()),
        sa.Column("macro_id", sa.BigInteger()),
        sa.Column("macro_name", sa.String()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_macro_impl",
        sa.Column("macro_id", sa.BigInteger()),
        sa.Column("impl_id", sa.BigInteger()),
        sa.Column("dialect", sa.String()),
        sa.Column("sql", sa.String()),
        sa.Column("type", sa.String()),
    )
    op.create_table(
        "ducklake_macro_parameters",
        sa.Column("macro_id", sa.BigInteger()),
        sa.Column("impl_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("parameter_name", sa.String()),
        sa.Column("parameter_type", sa.String()),
        sa.Column("default_value", sa.String()),
        sa.Column("default_value_type", sa.String()),
    )
    op.create_table(
        "ducklake_metadata",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("scope", sa.String()),
        sa.Column("scope_id", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_name_mapping",
        sa.Column("mapping_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("source_name", sa.String()),
        sa.Column("target_field_id", sa.BigInteger()),
        sa.Column("parent_column", sa.BigInteger()),
        sa.Column("is_partition", FLAG),
    )
    op.create_table(
        "ducklake_partition_column",
        sa.Column("partition_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("partition_key_index", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("transform", sa.String()),
    )
    op.create_table(
        "ducklake_partition_info",
        sa.Column("partition_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_schema",
        sa.Column("schema_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("schema_uuid", UUID),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("schema_name", sa.String()),
        sa.Column("path", sa.String()),
        sa.Column("path_is_relative", FLAG),
        sa.PrimaryKeyConstraint("schema_id"),
    )
    op.create_table(
        "ducklake_schema_versions",
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("schema_version", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_snapshot",
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_time", TIME),
        sa.Column("schema_version", sa.BigInteger()),
        sa.Column("next_catalog_id", sa.BigInteger()),
        sa.Column("next_file_id", sa.BigInteger()),
        sa.PrimaryKeyConstraint("snapshot_id"),
    )
    op.create_table(
        "ducklake_snapshot_changes",
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("changes_made", sa.String()),
        sa.Column("author", sa.String()),
        sa.Column("commit_message", sa.String()),
        sa.Column("commit_extra_info", sa.String()),
        sa.PrimaryKeyConstraint("snapshot_id"),
    )
    op.create_table(
        "ducklake_sort_expression",
        sa.Column("sort_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("sort_key_index", sa.BigInteger()),
        sa.Column("expression", sa.String()),
        sa.Column("dialect", sa.String()),
        sa.Column("sort_direction", sa.String()),
        sa.Column("null_order", sa.String()),
    )
    op.create_table(
        "ducklake_sort_info",
        sa.Column("sort_id", sa.BigInteger()),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
    )
    op.create_table(
        "ducklake_table",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("table_uuid", UUID),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("schema_id", sa.BigInteger()),
        sa.Column("table_name", sa.String()),
        sa.Column("path", sa.String()),
        sa.Column("path_is_relative", FLAG),
    )
    op.create_table(
        "ducklake_table_column_stats",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("column_id", sa.BigInteger()),
        sa.Column("contains_null", FLAG),
        sa.Column("contains_nan", FLAG),
        sa.Column("min_value", sa.String()),
        sa.Column("max_value", sa.String()),
        sa.Column("extra_stats", sa.String()),
    )
    op.create_table(
        "ducklake_table_stats",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("record_count", sa.BigInteger()),
        sa.Column("next_row_id", sa.BigInteger()),
        sa.Column("file_size_bytes", sa.BigInteger()),
    )
    op.create_index("trickle_by_table_stats", "ducklake_table_stats", ["table_id"])
    op.create_table(
        "ducklake_tag",
        sa.Column("object_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("key", sa.String()),
        sa.Column("value", sa.String()),
    )
    op.create_table(
        "ducklake_view",
        sa.Column("view_id", sa.BigInteger()),
        sa.Column("view_uuid", UUID),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("schema_id", sa.BigInteger()),
        sa.Column("view_name", sa.String()),
        sa.Column("dialect", sa.String()),
        sa.Column("sql", sa.String()),
        sa.Column("column_aliases", sa.String()),
    )
    op.create_table(
        "trickle_change",
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("change", sa.String()),
    )
    op.create_index("trickle_by_change", "trickle_change", ["snapshot_id"])
    op.create_table(
        "trickle_file",
        sa.Column("data_file_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("role", sa.String()),
        sa.Column("location", sa.String()),
        sa.Column("deletes", sa.BigInteger()),
        sa.Column("as_of", sa.BigInteger()),
        sa.Column("whole", FLAG),
        sa.Column("updates", FLAG),
        sa.Column("by_name", FLAG),
        sa.PrimaryKeyConstraint("data_file_id"),
    )
    op.create_index("trickle_by_table_feed", "trickle_file", ["table_id", "begin_snapshot"])
    op.create_table(
        "trickle_info",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String()),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "trickle_lease",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("host", sa.String()),
        sa.Column("process_id", sa.BigInteger()),
        sa.Column("reads_since", sa.BigInteger()),
        sa.Column("expires", TIME),
        sa.PrimaryKeyConstraint("session_id"),
    )
    op.create_table(
        "trickle_table",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("schema_name", sa.String()),
        sa.Column("table_name", sa.String()),
        sa.Column("definition", sa.String()),
    )
    op.create_index("trickle_by_table", "trickle_table", ["table_id"])
    op.create_table(
        "trickle_view",
        sa.Column("view_id", sa.BigInteger()),
        sa.Column("begin_snapshot", sa.BigInteger()),
        sa.Column("end_snapshot", sa.BigInteger()),
        sa.Column("schema_name", sa.String()),
        sa.Column("view_name", sa.String()),
        sa.Column("definition", sa.String()),
    )
