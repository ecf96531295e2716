"""How much memory the rows of a file take."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_PACKED = 4  # files of before do not tell: rows are taken to be so many times as large as in the file


def upgrade() -> None:
    op.add_column("trickle_file", sa.Column("memory_bytes", sa.BigInteger()))
    op.execute(
        f"UPDATE trickle_file SET memory_bytes = {_PACKED} * (SELECT f.file_size_bytes "
        "FROM ducklake_data_file AS f WHERE f.data_file_id = trickle_file.data_file_id)"
    )
