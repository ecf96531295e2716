"""The folder `_delta_log` -> which files a version of a table has, and what each commit changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from spark_trickle.errors import SourceAddressError
from spark_trickle.lake.storage.addresses import open_address
from spark_trickle.sources.delta.actions import (
    AddedFile,
    DeltaCommit,
    FileKey,
    Protocol,
    TableMetadata,
    collect_actions,
    parse_commit,
)

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(?:(\d{10})\.(\d{10})|([0-9a-f-]{36})))?\.(parquet|json)")
# What is read of a checkpoint and of the commits since.
_OF_FILES, _OF_SCHEMA = ("add", "remove", "sidecar"), ("metaData", "protocol")
_ACTION = re.compile(r'\s*\{\s*"(\w+)"')  # the name of the action that a line holds
_THREADS = 16  # that read commits
_REMEMBERED, _SMALL = 200, 1 << 18  # commits, and their bytes: those since a checkpoint, within a limit
_MARK = 12  # digits of the checksum that tells a commit from another one of the same number


class VersionGoneError(Exception):
    """A version that was asked for is not in the log any more."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table at one version, and what its readers have to understand."""

    metadata: TableMetadata
    protocol: Protocol


@dataclass(frozen=True)
class _Listing:
    commits: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]  # complete ones, with the names of their files


class DeltaLog:
    """The log of one table, which is at an address.

    In a bucket each look costs time and money. So the names of its files are those that were there when
    somebody last asked for the newest version, and commits that were read are kept until then.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._listing: _Listing | None = None
        self._commits: dict[int, bytes] = {}

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        filesystem, path = open_address(self.address)
        return filesystem, f"{path.rstrip('/')}/_delta_log"

    def exists(self) -> bool:
        filesystem, folder = self._place
        return bool(filesystem.get_file_info(folder).type == fs.FileType.Directory)

    def list_versions(self) -> frozenset[int]:
        """The versions that the log can tell of now; a table that is about to be made has none yet."""
        self._listing, self._commits = self._list_files(), {}
        listing = self._listing
        return listing.commits | listing.checkpoints.keys()

    def find_newest(self) -> int:
        if not (versions := self.list_versions()):
            raise SourceAddressError(f"there is no Delta table at {self.address}", "Check the path.")
        return max(versions)

    def mark_version(self, version: int) -> str:
        """What tells a commit from that of a table made anew, which has its number; empty if it is gone."""
        try:
            return hashlib.sha256(self._read_commit(version)).hexdigest()[:_MARK]
        except FileNotFoundError:
            return ""

    def read_schema(self, version: int) -> TableSchema:
        """The columns of a version; the files of its checkpoint are not read, as they may be many."""
        metadata, protocol = None, None
        for commit in self._read_upto(version, _OF_SCHEMA):
            metadata, protocol = commit.metadata or metadata, commit.protocol or protocol
        if metadata is None or protocol is None:
            raise VersionGoneError(f"version {version} of {self.address} is not in its log")
        return TableSchema(metadata, protocol)

    def read_files(self, version: int) -> tuple[AddedFile, ...]:
        """The files of a version."""
        files: dict[FileKey, AddedFile] = {}
        for commit in self._read_upto(version, _OF_FILES):
            for removed in commit.removed:
                files.pop(removed.key, None)
            files.update((added.key, added) for added in commit.added)
        return tuple(files.values())

    def _read_upto(self, version: int, wanted: Sequence[str]) -> Iterator[DeltaCommit]:
        """What led to a version: the newest checkpoint before it, and the commits since."""
        listing = self._listing or self._list_files()
        start = max((v for v in listing.checkpoints if v <= version), default=-1)
        if start >= 0:
            yield self._read_checkpoint(start, listing.checkpoints[start], wanted)
        yield from self.read_commits(start, version, wanted)

    def read_commits(self, after: int, upto: int, wanted: Sequence[str] = ()) -> list[DeltaCommit]:
        """The commits in (after, upto]; of all their actions, or of some, as others may be very many."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(partial(self._parse_commit, wanted), range(after + 1, upto + 1)))

    def _parse_commit(self, wanted: Sequence[str], version: int) -> DeltaCommit:
        try:
            text = self._read_commit(version).decode("utf-8")
        except FileNotFoundError:
            gone = f"version {version} of {self.address} is not in its log any more"
            raise VersionGoneError(gone) from None
        return parse_commit(version, _choose_lines(text, wanted))

    def _read_commit(self, version: int) -> bytes:
        if (known := self._commits.get(version)) is not None:
            return known
        found = self._read_file(_commit_name(version))
        if len(self._commits) < _REMEMBERED and len(found) <= _SMALL:
            self._commits[version] = found
        return found

    def _list_files(self) -> _Listing:
        filesystem, folder = self._place
        found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        commits: set[int] = set()
        whole: dict[int, tuple[str, ...]] = {}
        parts: dict[tuple[int, int], list[str]] = {}
        for info in found:
            name = info.base_name
            if match := _COMMIT.fullmatch(name):
                commits.add(int(match[1]))
            elif match := _CHECKPOINT.fullmatch(name):
                version = int(match[1])
                if match[2] is None:
                    whole[version] = (name,)
                else:
                    parts.setdefault((version, int(match[3])), []).append(name)
        for (version, count), names in parts.items():
            if len(names) == count:
                whole.setdefault(version, tuple(sorted(names)))
        return _Listing(frozenset(commits), whole)

    def _read_checkpoint(self, version: int, names: tuple[str, ...], wanted: Sequence[str]) -> DeltaCommit:
        """All that counts at a version; files that were removed before are not of interest."""
        held = [name for name in wanted if name != "remove"]
        actions = [a for name in names for a in self._read_actions(name, held)]
        for sidecar in [a["sidecar"] for a in actions if a.get("sidecar")]:
            actions += self._read_actions(f"_sidecars/{sidecar['path'].rpartition('/')[2]}", held)
        return collect_actions(version, actions)

    def _read_actions(self, name: str, wanted: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        if name.endswith(".json"):
            for line in _choose_lines(self._read_file(name).decode("utf-8"), wanted):
                yield json.loads(line)
            return
        filesystem, folder = self._place
        with filesystem.open_input_file(f"{folder}/{name}") as source:
            parquet = pq.ParquetFile(source)
            held = [n for n in wanted if n in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(columns=held):
                yield from _list_actions(batch)

    def _read_file(self, name: str) -> bytes:
        filesystem, folder = self._place
        with filesystem.open_input_file(f"{folder}/{name}") as source:
            return bytes(source.read())


def _choose_lines(text: str, wanted: Sequence[str]) -> Iterator[str]:
    """The lines of some actions; only a line feed ends one, though a text may hold other ends of lines."""
    for line in text.split("\n"):
        action = _ACTION.match(line) if wanted else None
        if line.strip() and (action is None or action[1] in wanted):
            yield line


def _list_actions(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    for name in batch.schema.names:
        for given in batch.column(name).drop_null().to_pylist():
            yield {name: given}


def _commit_name(version: int) -> str:
    return f"{version:020}.json"
