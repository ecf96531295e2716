"""Data files of an Iceberg snapshot -> files that Spark can read, with their rows, masks and bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.storage.addresses import open_file
from spark_trickle.model.files import Mask, Outside
from spark_trickle.sources.iceberg.bounds import read_bounds
from spark_trickle.sources.iceberg.deletes import DeleteIndex, find_address, refuse_unreadable
from spark_trickle.sources.iceberg.manifests import ListedFile
from spark_trickle.sources.interface import RemoteFile

_THREADS = 16  # that read footers
_MAPPING = "schema.name-mapping.default"  # a table that has it may hold files which were imported


def make_files(
    table: Table, schema: Schema, index: DeleteIndex, files: Iterable[ListedFile]
) -> tuple[RemoteFile, ...]:
    listed = list(files)
    for file in listed:
        refuse_unreadable(file)
    if _MAPPING in table.properties:
        _refuse_imported(table, listed)
    index.load_for(listed)
    return tuple(make_file(schema, f, index.make_mask(f)) for f in listed)


def make_file(schema: Schema, file: ListedFile, mask: Mask | None) -> RemoteFile:
    return RemoteFile(
        address=find_address(file.path),
        bytes=file.length,
        rows=file.rows - (mask.rows if mask is not None else 0),
        mask=mask,
        bounds=read_bounds(schema, file, masked=mask is not None),
    )


def find_path(file: ListedFile, mask: Mask | None) -> str:
    """What a file is called in our catalog."""
    return Outside(find_address(file.path), mask=mask).path


def _refuse_imported(table: Table, files: Sequence[ListedFile]) -> None:
    """Files that were not written for Iceberg have no field ids, and may lack the columns of partitions."""
    needed = {
        spec.spec_id: {f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)}
        for spec in table.specs().values()
    }
    with ThreadPoolExecutor(_THREADS) as pool:
        for file, ids in zip(files, pool.map(_read_field_ids, files), strict=True):
            if not ids:
                raise UnsupportedError(
                    f"the file {file.path}, which was imported and has no field ids,",
                    "Rewrite the files of the table, for example with rewrite_data_files.",
                )
            if not needed[file.partition[0]] <= ids:
                raise UnsupportedError(
                    f"the file {file.path}, which was imported without the columns of its partition,",
                    "Rewrite the files of the table, for example with rewrite_data_files.",
                )


def _read_field_ids(file: ListedFile) -> set[int]:
    with open_file(find_address(file.path)) as source:
        schema = pq.read_schema(source)
    given = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    return {int(id) for id in given if id is not None}
