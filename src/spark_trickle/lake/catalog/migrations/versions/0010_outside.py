"""Data files outside the data folder: tables of other systems that are read in place."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("trickle_file", sa.Column("outside", sa.String()))
