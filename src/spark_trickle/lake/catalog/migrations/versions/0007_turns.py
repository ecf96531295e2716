"""Who waits for a turn to change a table."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "trickle_turn",
        sa.Column("ticket", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("session_id", sa.String()),
        sa.Column("host", sa.String()),
        sa.Column("process_id", sa.BigInteger()),
        sa.Column("expires", TIME),
        sa.PrimaryKeyConstraint("ticket", "table_id"),
    )
