"""Who a warehouse is, and which of its sessions have ended."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "trickle_ended_session",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("ended", TIME),
        sa.PrimaryKeyConstraint("session_id"),
    )
    info = sa.table("trickle_info", sa.column("key"), sa.column("value"))
    known = sa.select(info.c.value).where(info.c.key == "warehouse_id")
    if op.get_bind().execute(known).first() is None:  # one that has sources made it earlier
        op.execute(sa.insert(info).values(key="warehouse_id", value=uuid.uuid4().hex))
