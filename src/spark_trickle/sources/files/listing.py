"""A folder or bucket -> the files in it that are whole, in the order in which they are loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pyarrow import fs

from spark_trickle.lake.storage.addresses import explain_folder, open_address
from spark_trickle.model.arriving import ArrivingFile
from spark_trickle.sources.files.pattern import PathPattern

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE = "files"  # the table of a source whose path names none


def list_tables(pattern: PathPattern, settled: datetime) -> dict[str, tuple[ArrivingFile, ...]]:
    """The files of each table that did not change since a time."""
    with explain_folder(pattern.folder):
        filesystem, inner = open_address(pattern.folder)
        prefix = pattern.folder.removesuffix(inner)
        found = filesystem.get_file_info(fs.FileSelector(inner, recursive=pattern.is_deep))
    tables: dict[str, list[ArrivingFile]] = {} if pattern.has_table else {ONE: []}
    for info in found:
        below = info.path[len(inner) :].strip("/")
        if _is_hidden(below):
            continue
        if info.type == fs.FileType.Directory and pattern.has_table:
            if matched := pattern.matcher.fullmatch(f"{below}/-"):
                tables.setdefault(matched["table"], [])
        elif info.type == fs.FileType.File and (matched := pattern.matcher.fullmatch(below)):
            table = matched["table"] if pattern.has_table else ONE
            file = describe_file(prefix, info)
            tables.setdefault(table, [])
            if file.modified <= settled:
                tables[table].append(file)
    return {name: tuple(sorted(files, key=_load_order)) for name, files in sorted(tables.items())}


def look_again(files: Sequence[ArrivingFile]) -> tuple[ArrivingFile | None, ...]:
    """The same files as they are now; None for one that is gone."""
    if not files:
        return ()
    with explain_folder(files[0].address.rpartition("/")[0]):
        filesystem, first = open_address(files[0].address)
        prefix = files[0].address.removesuffix(first)
        found = filesystem.get_file_info([f.address.removeprefix(prefix) for f in files])
    return tuple(describe_file(prefix, i) if i.type == fs.FileType.File else None for i in found)


def find_type(address: str) -> fs.FileType:
    """Whether something is there under exactly this name, and what it is."""
    with explain_folder(address):
        filesystem, path = open_address(address)
        return filesystem.get_file_info(path).type


def describe_file(prefix: str, info: fs.FileInfo) -> ArrivingFile:
    modified = _EPOCH + timedelta(microseconds=(info.mtime_ns or 0) // 1000)
    return ArrivingFile(prefix + info.path, info.size or 0, modified)


def mark_listing(files: Iterable[ArrivingFile]) -> str:
    """A text that is another one whenever a file came, went or was overwritten."""
    digest = hashlib.sha256()
    for f in files:
        digest.update(f"{f.address}\0{f.bytes}\0{f.modified.isoformat()}\n".encode())
    return digest.hexdigest()


def _load_order(file: ArrivingFile) -> tuple[datetime, str]:
    return file.modified, file.address


def _is_hidden(path: str) -> bool:
    """What Spark and others use while they write, and what is not data."""
    return path.endswith("._COPYING_") or any(p.startswith((".", "_")) for p in path.split("/"))
