"""Sources: attached databases, mirrors of their tables, published stream tables; how rows were stored."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.add_column("trickle_refresh", sa.Column("apply", sa.String()))
    op.create_table(
        "trickle_source",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String()),
        sa.Column("options", sa.String()),
        sa.Column("attached", TIME),
        sa.Column("version", sa.BigInteger()),
        sa.Column("state", sa.String()),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "trickle_mirror",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source", sa.String()),
        sa.Column("status", sa.String()),
        sa.Column("reason", sa.String()),
        sa.Column("position", sa.String()),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "trickle_published",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source", sa.String()),
        sa.Column("schema_name", sa.String()),
        sa.Column("table_name", sa.String()),
        sa.Column("reached", sa.BigInteger()),
        sa.Column("applied", TIME),
        sa.Column("error", sa.String()),
        sa.PrimaryKeyConstraint("table_id"),
    )
