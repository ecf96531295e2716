"""Delete files of a snapshot -> the mask of each of its data files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.storage.masks import DELTA_FILE, Numbers
from spark_trickle.lake.storage.positions import list_positions, make_positions_mask
from spark_trickle.model.files import Mask
from spark_trickle.sources.iceberg.manifests import FileKind, ListedFile

_THREADS = 16  # that read delete files
_FRAME = 8  # bytes around a deletion vector: its length and its checksum


def find_address(path: str) -> str:
    """Where a file is; a path in metadata is taken letter by letter."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path


class DeleteContents:
    """What delete files hold; each is read once."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Numbers]] = {}

    def load(self, files: Iterable[ListedFile]) -> None:
        missing = sorted({find_address(f.path) for f in files if not is_vector(f)} - self._found.keys())
        with ThreadPoolExecutor(_THREADS) as pool:
            self._found.update(zip(missing, pool.map(list_positions, missing), strict=True))

    def list_paths(self, file: ListedFile) -> Iterable[str]:
        """The data files of which it deletes rows."""
        if is_vector(file):
            assert file.referenced is not None
            return (file.referenced,)
        return self._found[find_address(file.path)].keys()

    def find_rows(self, file: ListedFile, path: str) -> Numbers | None:
        return self._found[find_address(file.path)].get(path)


class DeleteIndex:
    """The delete files of one snapshot, by the data files that they may be about."""

    def __init__(self, files: Iterable[ListedFile], contents: DeleteContents) -> None:
        self._files = tuple(files)
        for f in self._files:
            refuse_unreadable(f)
        self._contents = contents

    @cached_property
    def _of_paths(self) -> dict[str, list[ListedFile]]:
        found = defaultdict(list)
        for f in self._files:
            if f.referenced is not None:
                found[f.referenced].append(f)
        return found

    @cached_property
    def _of_partitions(self) -> dict[tuple[int, tuple[str, ...]], list[ListedFile]]:
        found = defaultdict(list)
        for f in self._files:
            if f.referenced is None:
                found[f.partition].append(f)
        return found

    def load_for(self, files: Iterable[ListedFile]) -> None:
        """Read the delete files of some data files at once."""
        self._contents.load({d.path: d for f in files for d in self._find_deletes(f)}.values())

    def make_mask(self, file: ListedFile) -> Mask | None:
        """The rows of a data file that are deleted."""
        deletes = self._find_deletes(file)
        for vector in (d for d in deletes if is_vector(d)):  # there is one at most, and it counts alone
            where, length = find_address(vector.path), vector.vector_length - _FRAME
            return Mask(DELTA_FILE, where, vector.vector_offset, length, vector.rows)
        self._contents.load(deletes)
        naming = {find_address(d.path): self._contents.find_rows(d, file.path) for d in deletes}
        rows = {address: numbers for address, numbers in sorted(naming.items()) if numbers is not None}
        if not rows:
            return None
        count = len(np.unique(np.concatenate(list(rows.values()))))
        return make_positions_mask(file.path, list(rows), count)

    def _find_deletes(self, file: ListedFile) -> list[ListedFile]:
        """Those that may be about a file: of the same partition, and not older than it."""
        named = self._of_paths.get(file.path, ())
        near = self._of_partitions.get(file.partition, ())
        return [d for d in (*named, *near) if d.sequence >= file.sequence]


def leave_out_dangling(deletes: Sequence[ListedFile], data: Iterable[ListedFile]) -> list[ListedFile]:
    """Without equality deletes that are about no data file: all are newer. Compaction leaves such behind."""
    oldest: dict[tuple[int, tuple[str, ...]], int] = {}
    for file in data:
        oldest[file.partition] = min(file.sequence, oldest.get(file.partition, file.sequence))

    def counts(delete: ListedFile) -> bool:
        if delete.kind is not FileKind.EQUALITY_DELETES:
            return True
        # Without a partition it is about the files of all of them.
        is_global = all(value == "None" for value in delete.partition[1])
        found = oldest.values() if is_global else [oldest.get(delete.partition, delete.sequence)]
        return any(sequence < delete.sequence for sequence in found)

    return [delete for delete in deletes if counts(delete)]


def is_vector(file: ListedFile) -> bool:
    return file.format == "PUFFIN"


def refuse_unreadable(file: ListedFile) -> None:
    """Name what cannot be read exactly."""
    if file.kind is FileKind.EQUALITY_DELETES:
        raise UnsupportedError(
            f"an equality delete file ({file.path})",
            "Compact the table in its own system, for example with rewrite_data_files, so that none is left.",
        )
    known = ("PARQUET",) if file.kind is FileKind.DATA else ("PARQUET", "PUFFIN")
    if file.format not in known:
        raise UnsupportedError(
            f"the file {file.path} of format {file.format}",
            "Rewrite the table with write.format.default = parquet.",
        )
    if is_vector(file) and file.referenced is None:
        raise UnsupportedError(
            f"the deletion vector {file.path}, which names no data file,", "Rewrite the files of the table."
        )
    if file.encrypted:
        raise UnsupportedError(f"the encrypted file {file.path}", "Copy the table to one without encryption.")
