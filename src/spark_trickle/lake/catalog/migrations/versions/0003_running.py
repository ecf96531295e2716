"""The running system: what refreshes cost, who runs them, gates, watermarks and alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.add_column("trickle_stream", sa.Column("streams_frontier", sa.BigInteger()))
    op.add_column("trickle_stream", sa.Column("retry_at", TIME))
    op.add_column("trickle_refresh", sa.Column("source_rows", sa.BigInteger()))
    op.add_column("trickle_refresh", sa.Column("duration_ms", sa.Float()))
    op.add_column("trickle_refresh", sa.Column("initiated_by", sa.String()))
    op.add_column("trickle_refresh", sa.Column("waited_ms", sa.Float()))
    op.create_table(
        "trickle_running",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String()),
        sa.Column("started", TIME),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_scheduler",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String()),
        sa.Column("host", sa.String()),
        sa.Column("process_id", sa.BigInteger()),
        sa.Column("expires", TIME),
        sa.Column("paused", sa.Boolean().with_variant(sa.BigInteger(), "sqlite")),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "trickle_gate",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("closed", TIME),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_watermark",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("watermark", TIME),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("advanced", TIME),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_watermark_group",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("table_ids", sa.String()),
        sa.Column("tolerance_seconds", sa.Float()),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "trickle_alert",
        sa.Column("raised", TIME),
        sa.Column("event", sa.String()),
        sa.Column("table_name", sa.String()),
        sa.Column("message", sa.String()),
    )
