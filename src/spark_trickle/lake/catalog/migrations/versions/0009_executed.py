"""What the last refreshes of each stream table executed."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("trickle_refresh", sa.Column("executed", sa.String()))
