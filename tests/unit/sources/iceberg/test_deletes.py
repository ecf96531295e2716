"""Which delete files apply to which data files: partitions and sequence numbers, as the specification says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.storage.masks import DELTA_FILE
from spark_trickle.lake.storage.outside import read_mask
from spark_trickle.model.files import Mask
from spark_trickle.sources.iceberg.deletes import DeleteContents, DeleteIndex, find_address
from spark_trickle.sources.iceberg.manifests import FileKind, ListedFile

FILE = ListedFile(
    FileKind.DATA, "file:///t/a%20b.parquet", "PARQUET", (0, ("1",)), 10, 100, 5, {}, {}, {}, False
)


def write_deletes(folder: Path, name: str, *rows: tuple[str, int], sequence: int = 5) -> ListedFile:
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"file_path": [r[0] for r in rows], "pos": [r[1] for r in rows]}), path)
    kind = FileKind.POSITION_DELETES
    return replace(FILE, kind=kind, path=f"file://{path}", rows=len(rows), sequence=sequence)


def mask_of(*deletes: ListedFile, file: ListedFile = FILE) -> Mask | None:
    return DeleteIndex(deletes, DeleteContents()).make_mask(file)


def rows_of(mask: Mask | None) -> list[int]:
    found: list[int] = [] if mask is None else read_mask(mask).to_pylist()
    assert mask is None or mask.rows == len(found)
    return found


def test_several_files_delete_rows_of_one(tmp_path: Path) -> None:
    first = write_deletes(tmp_path, "1", (FILE.path, 3), (FILE.path, 1), ("file:///t/other", 2))
    second = write_deletes(tmp_path, "2", (FILE.path, 3), (FILE.path, 9))
    unrelated = write_deletes(tmp_path, "3", ("file:///t/other", 2))
    mask = mask_of(first, second, unrelated)
    assert rows_of(mask) == [1, 3, 9]
    assert mask is not None
    assert "/3.parquet" not in mask.where


def test_older_deletes_do_not_count(tmp_path: Path) -> None:
    assert rows_of(mask_of(write_deletes(tmp_path, "1", (FILE.path, 3), sequence=4))) == []
    assert rows_of(mask_of(write_deletes(tmp_path, "2", (FILE.path, 3), sequence=6))) == [3]


def test_deletes_of_other_partitions_do_not_count(tmp_path: Path) -> None:
    deletes = write_deletes(tmp_path, "1", (FILE.path, 3))
    for partition in ((0, ("2",)), (1, ("1",))):
        assert rows_of(mask_of(replace(deletes, partition=partition))) == []


def test_a_vector_counts_alone(tmp_path: Path) -> None:
    deletes = write_deletes(tmp_path, "1", (FILE.path, 3))
    vector = replace(
        deletes,
        path="s3://b/v.puffin",
        format="PUFFIN",
        referenced=FILE.path,
        vector_offset=4,
        vector_length=50,
    )
    assert mask_of(deletes, vector) == Mask(DELTA_FILE, "s3://b/v.puffin", 4, 42, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": FileKind.EQUALITY_DELETES}, "an equality delete file"),
        ({"format": "AVRO"}, "of format AVRO"),
        ({"encrypted": True}, "the encrypted file"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    deletes = write_deletes(tmp_path, "1", (FILE.path, 3))
    with pytest.raises(UnsupportedError, match=words):
        mask_of(replace(deletes, **change))  # type: ignore[arg-type]


def test_a_path_is_taken_letter_by_letter() -> None:
    assert find_address("file:///t/a%20b") == "/t/a%20b"
    assert find_address("file:/t/a") == "/t/a"
    assert find_address("s3://b/a%20b") == "s3://b/a%20b"
