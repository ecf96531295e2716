"""What is remembered of the refreshes of a stream table for good, and how often it is read."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "trickle_experience",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("runs", sa.String()),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_read",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reads", sa.BigInteger()),
        sa.Column("first_read", TIME),
        sa.Column("last_read", TIME),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.drop_index("trickle_by_refreshed_table", "trickle_refresh")
    op.create_index("trickle_by_refreshed_table", "trickle_refresh", ["table_id", "started"])
