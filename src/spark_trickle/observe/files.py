"""The table function that verifies data files."""

from __future__ import annotations

from spark_trickle.lake.storage.verify import verify_files
from spark_trickle.observe.answer import Answer
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.txn.work import Work, now

VERIFY_COLUMNS = {"severity": "string", "table_name": "string", "path": "string", "detail": "string"}


def report_damage(work: Work, name: str | None = None) -> Answer:
    """Read every data file, of one table or of all, and compare it with the catalog."""
    table = None if name is None else work.catalog.table(Cursor(name).read_name(), work.place.schema)
    found = verify_files(work.place.warehouse, now(), table)
    return Answer(VERIFY_COLUMNS, [(f.severity, f.table, f.path, f.detail) for f in found])
