"""Stream tables: where each of them stands, and what its refreshes did."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "trickle_stream",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("frontier", sa.BigInteger()),
        sa.Column("status", sa.String()),
        sa.Column("error", sa.String()),
        sa.Column("errors_in_a_row", sa.BigInteger()),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_refresh",
        sa.Column("table_id", sa.BigInteger()),
        sa.Column("started", TIME),
        sa.Column("action", sa.String()),
        sa.Column("reason", sa.String()),
        sa.Column("rows_inserted", sa.BigInteger()),
        sa.Column("rows_deleted", sa.BigInteger()),
        sa.Column("delta_rows", sa.BigInteger()),
        sa.Column("snapshot_id", sa.BigInteger()),
        sa.Column("phases", sa.String()),
        sa.Column("error", sa.String()),
    )
    op.create_index("trickle_by_refreshed_table", "trickle_refresh", ["table_id"])
