"""Options of published stream tables."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("trickle_published", sa.Column("options", sa.String()))
