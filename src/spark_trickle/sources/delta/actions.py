"""The lines of a Delta commit -> values, as far as they say what a table holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from spark_trickle.errors import UnsupportedError

# Features of a table that readers have to know, and that are understood here.
_READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_WITH_FEATURES = 3  # the version of the protocol that lists features by name


@dataclass(frozen=True)
class Vector:
    """Where a deletion vector is: in the log (i), in a file of the table (u), or at an address (p)."""

    storage: str
    where: str
    bytes: int
    rows: int
    offset: int

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> Vector | None:
        if given is None:
            return None
        return cls(
            given["storageType"],
            given["pathOrInlineDv"],
            given["sizeInBytes"],
            given["cardinality"],
            given.get("offset") or 0,
        )


FileKey = tuple[str, Vector | None]


@dataclass(frozen=True)
class AddedFile:
    """A file that a commit made part of the table."""

    path: str
    bytes: int
    values: tuple[tuple[str, str | None], ...]  # of the columns it is partitioned by
    changes_data: bool
    stats: str | None
    vector: Vector | None

    @property
    def key(self) -> FileKey:
        return self.path, self.vector

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> AddedFile:
        values = given.get("partitionValues") or {}
        pairs = values.items() if isinstance(values, Mapping) else values  # a checkpoint has pairs
        return cls(
            unquote(given["path"]),
            given["size"],
            tuple(sorted(pairs)),
            given.get("dataChange", True) is not False,
            given.get("stats"),
            Vector.from_json(given.get("deletionVector")),
        )


@dataclass(frozen=True)
class RemovedFile:
    """A file that a commit took out of the table."""

    path: str
    changes_data: bool
    vector: Vector | None

    @property
    def key(self) -> FileKey:
        return self.path, self.vector

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> RemovedFile:
        vector = Vector.from_json(given.get("deletionVector"))
        return cls(unquote(given["path"]), given.get("dataChange", True) is not False, vector)


@dataclass(frozen=True)
class ChangeFile:
    """A file of the change data feed: the rows that a commit changed, and how."""

    path: str
    bytes: int
    values: tuple[tuple[str, str | None], ...]

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> ChangeFile:
        values = given.get("partitionValues") or {}
        return cls(unquote(given["path"]), given["size"], tuple(sorted(values.items())))


@dataclass(frozen=True)
class TableMetadata:
    """The columns of a table, and its settings."""

    id: str
    schema: Mapping[str, Any]
    partitioned_by: tuple[str, ...]
    configuration: Mapping[str, str]
    description: str = ""

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> TableMetadata:
        return cls(
            given["id"],
            json.loads(given["schemaString"]),
            tuple(given.get("partitionColumns") or ()),
            dict(given.get("configuration") or {}),
            given.get("description") or "",
        )


@dataclass(frozen=True)
class Protocol:
    """What a reader must understand to read the table rightly."""

    reader: int
    features: frozenset[str]

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Protocol:
        return cls(given["minReaderVersion"], frozenset(given.get("readerFeatures") or ()))

    def require_readable(self, table: str) -> None:
        if self.reader > _WITH_FEATURES:
            raise UnsupportedError(
                f'version {self.reader} of the reader protocol of the Delta table "{table}"',
                f"Versions up to {_WITH_FEATURES} can be read.",
            )
        if unknown := sorted(self.features - _READABLE):
            raise UnsupportedError(
                f'the feature {", ".join(unknown)} of the Delta table "{table}"',
                "Drop the feature with ALTER TABLE … DROP FEATURE, or copy the table.",
            )


@dataclass(frozen=True)
class DeltaCommit:
    """What one version of a table changed."""

    version: int
    added: tuple[AddedFile, ...] = ()
    removed: tuple[RemovedFile, ...] = ()
    metadata: TableMetadata | None = None
    protocol: Protocol | None = None
    recorded: tuple[ChangeFile, ...] = ()  # then they are all that it changed
    info: Mapping[str, Any] = field(default_factory=dict)  # what its writer noted about it

    @property
    def changes_data(self) -> bool:
        return any(r.changes_data for r in self.removed) or any(a.changes_data for a in self.added)


def parse_commit(version: int, lines: Iterable[str]) -> DeltaCommit:
    return collect_actions(version, (json.loads(line) for line in lines if line.strip()))


def collect_actions(version: int, actions: Iterable[Mapping[str, Any]]) -> DeltaCommit:
    added, removed, recorded, metadata, protocol = [], [], [], None, None
    info: Mapping[str, Any] = {}
    for action in actions:
        if (given := action.get("add")) is not None:
            added.append(AddedFile.from_json(given))
        elif (given := action.get("remove")) is not None:
            removed.append(RemovedFile.from_json(given))
        elif (given := action.get("cdc")) is not None:
            recorded.append(ChangeFile.from_json(given))
        elif (given := action.get("commitInfo")) is not None:
            info = given
        elif (given := action.get("metaData")) is not None:
            metadata = TableMetadata.from_json(given)
        elif (given := action.get("protocol")) is not None:
            protocol = Protocol.from_json(given)
    return DeltaCommit(version, tuple(added), tuple(removed), metadata, protocol, tuple(recorded), info)
