"""The tables that tell of a table: which files were loaded, and what could not be.

They are tables of ours, read-only, and change in the same commits as the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from spark_trickle.errors import AlreadyExistsError
from spark_trickle.lake.storage.files import new_table_path
from spark_trickle.model import commit
from spark_trickle.model.catalog import Catalog
from spark_trickle.model.source import Mirror
from spark_trickle.model.table import WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Scalar
from spark_trickle.sources.interface import RemoteTable
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.txn.names import check_name
from spark_trickle.txn.work import Work

LEDGER, REJECTS = "files", "rejects"
LOADED_AT = "loaded_at"
Parts = Mapping[str, Mapping[str, str]]  # their columns with the types, by what they are

OF_FILES: Parts = {
    LEDGER: {
        "file": "string",
        "bytes": "long",
        "modified": "timestamp",
        "status": "string",
        "rows": "long",
        "rejected": "long",
        LOADED_AT: "timestamp",
    },
    REJECTS: {"file": "string", "reason": "string", "record": "string", LOADED_AT: "timestamp"},
}


def describe_parts(remote: RemoteTable) -> Parts:
    """The parts of a table that is read in batches."""
    return {REJECTS: {**{c.name: c.type for c in remote.rejects}, LOADED_AT: "timestamp"}}


def define_parts(work: Work, table: Table, parts: Parts = OF_FILES) -> None:
    """Create them beside a new table: clicks_files and clicks_rejects for clicks."""
    for part, columns in parts.items():
        name = f"{table.name}_{part}"
        check_name(name)
        if (taken := work.catalog.find((table.schema, name), table.schema)) is not None:
            raise AlreadyExistsError("table", taken.full_name)
        ids = count(WEIGHT_ID + 1)
        made = tuple(TableColumn(next(ids), n, Scalar(kind)) for n, kind in columns.items())
        mirror = require_mirror(table)
        new = Table(
            id=work.new_id(),
            schema=table.schema,
            name=name,
            columns=made,
            key=(),
            key_enforced=False,
            path=new_table_path(name),
            next_column_id=next(ids),
            view_id=work.new_id() + 1,
            mirror=Mirror(mirror.source, "", mirror.table, 0, (), 0, part=part),
        )
        work.define(commit.CreatedTable(new))


def find_part(catalog: Catalog, table: Table, part: str) -> Table:
    return next(t for t in catalog.find_parts(table) if require_mirror(t).part == part)
