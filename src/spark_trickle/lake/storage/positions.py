"""Position deletes of Iceberg: Parquet files that name rows of data files by path and number."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import OutsideFileError
from spark_trickle.lake.storage.addresses import open_file
from spark_trickle.lake.storage.masks import Numbers
from spark_trickle.model.files import Mask

POSITIONS = "iceberg positions"
_PATH, _ROW = "file_path", "pos"


def make_positions_mask(path: str, deletes: Sequence[str], rows: int) -> Mask:
    """The rows that some delete files name of one data file, which they call by this path."""
    return Mask(POSITIONS, json.dumps([path, *deletes]), 0, 0, rows)


def read_positions(mask: Mask) -> pa.Array:
    """The numbers of a mask, ascending; two delete files may name the same row."""
    path, *deletes = json.loads(mask.where)
    found = [_read_rows(address, path)[_ROW].to_numpy() for address in deletes]
    return pa.array(np.unique(np.concatenate([np.zeros(0, np.int64), *found])))


def list_positions(address: str) -> dict[str, Numbers]:
    """The rows that a delete file names, by the path of their data file."""
    rows = _read_rows(address).sort_by([(_PATH, "ascending"), (_ROW, "ascending")])
    paths, numbers = rows[_PATH].combine_chunks(), rows[_ROW].to_numpy()
    if not len(paths):
        return {}
    encoded = pc.run_end_encode(paths)
    ends = encoded.run_ends.to_numpy()
    return dict(zip(encoded.values.to_pylist(), np.split(numbers, ends[:-1]), strict=True))


def _read_rows(address: str, path: str | None = None) -> pa.Table:
    chosen = None if path is None else [(_PATH, "=", path)]
    try:
        with open_file(address) as source:
            return pq.read_table(source, columns=[_PATH, _ROW], filters=chosen, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise OutsideFileError("", address, f"cannot be read: {str(error).splitlines()[0]}") from None
