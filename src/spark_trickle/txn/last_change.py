"""The keys of a tail -> which of them went, and which added rows a later change took away again.

The rows of a change are a net change, so each key stands there at most once as it was and once as it is. What
a key is in the end, its last change says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_trickle.model.arrow import combine_chunks

Numbers = NDArray[np.int64]
_MOST_NUMBERS = 2**62  # that keys of several columns may come to


@dataclass(frozen=True)
class FileKeys:
    """The keys of one file as places from 0 on, and whether each row is one that went."""

    as_of: int
    path: str
    places: Numbers
    negative: NDArray[np.bool_]


def find_last_changes(files: Sequence[FileKeys], size: int) -> tuple[NDArray[np.bool_], dict[str, Numbers]]:
    """Whether the key of a place ever went; and the numbers of the rows that were overtaken, by file."""
    gone, later = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    overtaken: dict[str, Any] = {}
    newest_first = sorted(files, key=lambda f: -f.as_of)
    for _, change in groupby(newest_first, key=lambda f: f.as_of):
        parts = list(change)
        for f in parts:
            old = np.flatnonzero(later[f.places] & ~f.negative)
            if len(old):
                overtaken[f.path] = old
        for f in parts:
            later[f.places] = True
            gone[f.places[f.negative]] = True
    return gone, overtaken


def pack_bits(bits: NDArray[np.bool_]) -> Numbers:
    """Bits in words of 64, the first one lowest."""
    padded = np.pad(bits, (0, -len(bits) % 64))
    return np.packbits(padded, bitorder="little").view(np.int64)


def number_rows(keys: pa.Table) -> Numbers | None:
    """A number for each different row, from 0 on; None if too many rows could be different."""
    numbers, size = np.zeros(keys.num_rows, np.int64), 1
    for column in keys.itercolumns():
        encoded = combine_chunks(column).dictionary_encode(null_encoding="encode")
        size *= max(len(encoded.dictionary), 1)
        if size > _MOST_NUMBERS:
            return None
        numbers = numbers * len(encoded.dictionary) + encoded.indices.to_numpy()
    return np.unique(numbers, return_inverse=True)[1]
