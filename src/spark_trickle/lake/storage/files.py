"""Where data files live: paths, sizes, listing and deletion, on local disk or an object store."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from spark_trickle.errors import DamagedFileError, TrickleError, WarehouseError, WarehouseMismatchError
from spark_trickle.lake.cache.recent_rows import RecentRows
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.lake.storage.marker import MARKER_FOLDER
from spark_trickle.lake.storage.masks import pack_bits
from spark_trickle.lake.storage.outside import check_outside, read_mask, read_outside
from spark_trickle.lake.storage.stats import column_stats
from spark_trickle.model.arrow import column_ids, negate_weights
from spark_trickle.model.files import DataFile, Mask, Outside, Role
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import Scalar, is_float

TABLES_FOLDER = "tables/"
_PATTERN = re.compile(r"([\[\]{}*?\\])")


def new_table_path(name: str) -> str:
    """A folder name that people recognise and that no other table has."""
    return f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:40]}-{uuid.uuid4().hex[:12]}/"


@dataclass(frozen=True)
class FoundFile:
    """A file on disk, whether or not the catalog knows it."""

    location: str  # below the folder of all tables
    bytes: int
    modified: datetime


@dataclass(frozen=True)
class Storage:
    """The data folder of a warehouse; `session_id` marks the files this session writes."""

    root: str
    filesystem: fs.FileSystem
    base: str  # the root as the filesystem calls it
    session_id: str
    recent: RecentRows = field(default_factory=RecentRows, compare=False)

    @classmethod
    def open(cls, root: str, session_id: str) -> Storage:
        return cls(root, fs.LocalFileSystem(), root, session_id)

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def is_writable(self) -> bool:
        """Whether files can be added; a folder that is not there yet will be made."""
        return not self.local or not os.path.exists(self.base) or os.access(self.base, os.W_OK)

    def new_name(self) -> str:
        """A name no file has, that tells which session writes it."""
        return f"{self.session_id}-{uuid.uuid4().hex[:16]}"

    def folder(self, table: Table) -> str:
        return f"{self.root}/{TABLES_FOLDER}{table.path}"

    def path(self, table: Table, file: str) -> str:
        """The address of a file as Spark wants it for writing."""
        return f"{self.folder(table)}{file}"

    def pattern(self, table: Table, file: str) -> str:
        """The same for reading."""
        return _write_pattern(self.path(table, file))

    def _inner_path(self, table: Table, file: str = "") -> str:
        return f"{self.base}/{TABLES_FOLDER}{table.path}{file}"

    def write(self, table: Table, name: str, rows: pa.Table, compression: str) -> None:
        """Write one small file and make it durable."""
        with self.explain_errors():
            self.filesystem.create_dir(self._inner_path(table), recursive=True)
            self.recent.put(self._inner_path(table, name), rows)
            with self.filesystem.open_output_stream(self._inner_path(table, name)) as sink:
                pq.write_table(
                    rows,
                    sink,
                    compression=compression,
                    write_statistics=_list_bounded_columns(table),
                    write_page_checksum=True,
                    # Spark stumbles over the empty dictionary of a list that holds only nulls
                    use_dictionary=[c.name for c in table.columns if isinstance(c.type, Scalar)],
                )
                crash_point("half_data")
            if self.local:
                _sync_path(self._inner_path(table, name))

    @contextmanager
    def probe_file(self) -> Iterator[str]:
        """A file of one line in the data folder, while the block runs, by its address for Spark."""
        name = f"probe-{self.new_name()}.txt"
        with self.explain_errors():
            self.filesystem.create_dir(self.base, recursive=True)
            with self.filesystem.open_output_stream(f"{self.base}/{name}") as sink:
                sink.write(b"seen\n")
        try:
            yield _write_pattern(f"{self.root}/{name}")
        finally:
            self.filesystem.delete_file(f"{self.base}/{name}")

    def make_folder(self, table: Table, folder: str) -> None:
        """Make the folder that executors will write to: a disk that refuses is told of in plain words."""
        if self.local:
            with self.explain_errors():
                self.filesystem.create_dir(self._inner_path(table, folder), recursive=True)

    def read(self, table: Table, file: DataFile) -> pa.Table | None:
        """All rows of one small file; None if only Spark can read it."""
        rows = self._read_file(table, file)
        return negate_weights(rows) if rows is not None and file.role is Role.REMOVED else rows

    def _read_file(self, table: Table, file: DataFile) -> pa.Table | None:
        self.check(table, (file,))
        if file.outside is not None:
            return self._read_outside(table, file, file.outside)
        path = self._inner_path(table, file.path)
        if (known := self.recent.get(path)) is not None:
            return known
        with self._read_whole(table, file.path), self.filesystem.open_input_file(path) as source:
            rows = pq.read_table(source, page_checksum_verification=True)
        self.recent.put(path, rows)
        return rows

    def _read_outside(self, table: Table, file: DataFile, outside: Outside) -> pa.Table | None:
        path = f"{table.id}:{hash(table.columns)}:{file.path}"
        if (known := self.recent.get(path)) is not None:
            return known
        rows = read_outside(table, outside)
        if rows is not None:
            self.recent.put(path, rows)
        return rows

    def read_columns(self, table: Table, file: DataFile, ids: Sequence[int]) -> pa.Table | None:
        """At least some columns of a file, under the names that it has for them; None if only Spark can."""
        self.check(table, (file,))
        if file.outside is not None:
            return read_outside(table, file.outside, [c for c in table.columns if c.id in ids])
        path = self._inner_path(table, file.path)
        if (kept := self.recent.get(path)) is not None:
            return kept
        with self._read_whole(table, file.path), self.filesystem.open_input_file(path) as source:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            known = column_ids(parquet.schema_arrow)
            return parquet.read([known[i] for i in ids if i in known])

    def read_batches(self, table: Table, name: str) -> Iterator[pa.Table]:
        """The rows of a large file, some at a time."""
        path = self._inner_path(table, name)
        with self._read_whole(table, name), self.filesystem.open_input_file(path) as source:
            for batch in pq.ParquetFile(source, page_checksum_verification=True).iter_batches():
                yield pa.Table.from_batches([batch])

    def describe(self, table: Table, name: str, role: Role, as_of: int, memory: int) -> DataFile:
        """Read the footer of a new file: its size, its rows, and the bounds of its columns.

        It does not tell how much memory the rows take: equal values are in the file only once.
        """
        with self.explain_errors():
            size = self.filesystem.get_file_info(self._inner_path(table, name)).size
            with self.filesystem.open_input_file(self._inner_path(table, name)) as source:
                footer = pq.read_metadata(source)
        return DataFile(
            path=name,
            role=role,
            rows=footer.num_rows,
            deletes=0,
            bytes=size,
            footer_bytes=footer.serialized_size,
            as_of=as_of,
            memory=memory,
            stats=column_stats(footer, table),
        )

    def count_rows(self, table: Table, name: str) -> int:
        """How many rows the footer of a file tells of."""
        with self.explain_errors(), self.filesystem.open_input_file(self._inner_path(table, name)) as source:
            return int(pq.read_metadata(source).num_rows)

    def list_parts(self, table: Table, folder: str) -> list[str]:
        """The Parquet files that Spark wrote into a folder of the table."""
        selector = fs.FileSelector(self._inner_path(table, folder), recursive=True, allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        start = len(self._inner_path(table))
        names = (f.path[start:] for f in found if f.type == fs.FileType.File)
        return sorted(n for n in names if n.endswith(".parquet") and not _is_hidden(n))

    def all_files(self, folder: str | None = None) -> Iterator[FoundFile]:
        """Every file there is, or those of one table's folder."""
        top = f"{self.base}/{TABLES_FOLDER}"
        selector = fs.FileSelector(f"{top}{folder or ''}", recursive=True, allow_not_found=True)
        for found in self.filesystem.get_file_info(selector):
            if found.type == fs.FileType.File:
                yield FoundFile(found.path[len(top) :].lstrip("/"), found.size, found.mtime)

    def find(self, location: str) -> int | None:
        """The size of a file, None if it is not there."""
        found = self.filesystem.get_file_info(f"{self.base}/{TABLES_FOLDER}{location}")
        return int(found.size) if found.type == fs.FileType.File else None

    def open_location(self, location: str) -> pa.NativeFile:
        return self.filesystem.open_input_file(f"{self.base}/{TABLES_FOLDER}{location}")

    def delete(self, folder: str, name: str) -> None:
        """Remove a file if it is there, with the checksum that Hadoop keeps beside it."""
        path = f"{self.base}/{TABLES_FOLDER}{folder}{name}"
        parent, _, leaf = path.rpartition("/")
        for each in (path, f"{parent}/.{leaf}.crc"):
            if self.filesystem.get_file_info(each).type == fs.FileType.File:
                self.filesystem.delete_file(each)

    def discard(self, table: Table, name: str) -> None:
        """Remove what this session wrote under a name: a file, or a folder of the executors."""
        if self.filesystem.get_file_info(self._inner_path(table, name)).type == fs.FileType.Directory:
            self.filesystem.delete_dir(self._inner_path(table, name))
        else:
            self.delete(table.path, name)

    def delete_empty_folders(self, folder: str | None) -> None:
        """Remove folders that vacuum emptied; a writer makes its folder again when it needs it."""
        top = f"{self.base}/{TABLES_FOLDER}{folder or ''}"
        if not self.local:
            return
        for path, _, _ in sorted(os.walk(top), reverse=True):
            if path.rstrip("/") != f"{self.base}/{TABLES_FOLDER}".rstrip("/"):
                with suppress(OSError):  # not empty, or filled again just now
                    os.rmdir(path)

    def locate(self, table: Table, files: Sequence[DataFile]) -> list[str]:
        """The addresses of files that are there and whole."""
        self.check(table, files)
        return [self.path(table, f.path) if f.outside is None else f.outside.address for f in files]

    def pack_mask(self, mask: Mask) -> pa.Array:
        """The rows that a mask names as bits in words of 64."""
        return pa.array(pack_bits(read_mask(mask)))

    def check(self, table: Table, files: Iterable[DataFile]) -> None:
        """Notice a missing or truncated file before Spark trips over it."""
        for f in files:
            if f.outside is not None:
                check_outside(table, f, f.outside)
                continue
            if not self.local:
                continue
            try:
                size = os.stat(self._inner_path(table, f.path)).st_size
            except FileNotFoundError:
                raise self._explain_missing(table, f) from None
            if size != f.bytes:
                raise DamagedFileError(table.full_name, f.path, f"has {size} bytes instead of {f.bytes}")

    def _explain_missing(self, table: Table, file: DataFile) -> TrickleError:
        """One file may be lost; without the marker it is the folder that is not in its place."""
        if os.path.isdir(f"{self.base}/{MARKER_FOLDER}"):
            return DamagedFileError(table.full_name, file.path, "is missing")
        return WarehouseMismatchError(
            self.root, "it has no marker of this warehouse", "Mount the data folder, or give its data_path."
        )

    @contextmanager
    def _read_whole(self, table: Table, name: str) -> Iterator[None]:
        """Read a file in the block: what is wrong with its bytes is told apart from what the disk refuses.

        pyarrow raises OSError for both; only that of the disk has a number.
        """
        with self.explain_errors():
            try:
                yield
            except (pa.ArrowInvalid, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                detail = f"cannot be read as Parquet: {str(error).splitlines()[0]}"
                raise DamagedFileError(table.full_name, name, detail) from None

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WarehouseError(
                f"the data folder {self.root} cannot be used: {error.strerror or error}",
                "Check its permissions and the free space; nothing was committed.",
            ) from error


def _write_pattern(path: str) -> str:
    """An address for reading: Spark takes it as a pattern, and a folder may be called "sales [2026]"."""
    return _PATTERN.sub(r"\\\1", path)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _sync_path(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _list_bounded_columns(table: Table) -> list[str]:
    """Columns whose bounds Spark may trust: those of floats leave out NaN, which is above them all."""
    return [WEIGHT, *(c.name for c in table.columns if isinstance(c.type, Scalar) and not is_float(c.type))]
