"""Data files: what the catalog knows of them, and which of them make up the content of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256

from spark_trickle.model.table import Table


class Role(StrEnum):
    """Why a file exists: `change` and `removed` feed consumers, `base` and `net` only speed up reading."""

    BASE = "base"  # consolidated content, all weights +1
    NET = "net"  # several changes merged into their sum
    CHANGE = "change"  # the change of one commit
    REMOVED = "removed"  # a file of before, all rows of which went: read with its weights turned round
    UNKNOWN = "unknown"  # no file: what this commit changed in detail is not known any more, only why


_LONGEST_WHERE = 1_000  # letters of a mask that are part of the name of its file
FEED = (Role.CHANGE, Role.REMOVED, Role.UNKNOWN)


@dataclass(frozen=True)
class Mask:
    """Which rows of a file are deleted, by their numbers; with `keeps`, which rows count and no others."""

    form: str  # how the numbers are written down: see lake/storage/masks
    where: str  # the file that holds them, or the numbers themselves as text
    offset: int
    bytes: int
    rows: int
    keeps: bool = False


@dataclass(frozen=True)
class Outside:
    """A file that another system wrote and keeps: read where it is, never moved or deleted by us."""

    address: str
    values: tuple[tuple[str, str | None], ...] = ()  # of columns that are not in it, by their names there
    mask: Mask | None = None
    tells_changes: bool = False  # each row says how it changed, as in Delta's change data feed

    @property
    def path(self) -> str:
        """What tells it apart from the same file with other rows deleted."""
        if self.mask is None:
            return self.address
        where = self.mask.where
        if len(where) > _LONGEST_WHERE:
            where = sha256(where.encode()).hexdigest()
        return f"{self.address}#{where}@{self.mask.offset}"

    def to_text(self) -> str:
        mask = None if self.mask is None else asdict(self.mask)
        return json.dumps(
            {
                "address": self.address,
                "values": self.values,
                "mask": mask,
                "tells_changes": self.tells_changes,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Outside:
        given = json.loads(text)
        mask = None if given["mask"] is None else Mask(**given["mask"])
        values = tuple((name, value) for name, value in given["values"])
        return cls(given["address"], values, mask, given["tells_changes"])


@dataclass(frozen=True)
class ColumnStats:
    """What a file holds of one column; bounds are text in DuckLake's form, None where unknown."""

    column_id: int
    values: int
    nulls: int | None
    low: str | None
    high: str | None
    has_nan: bool | None = None
    bytes: int = 0


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of rows with weights; `as_of` orders it in the log of its table.

    A base made by compaction of snapshot r has `as_of` r, though it is committed later: changes
    that were committed meanwhile come after it in the log.
    """

    path: str
    role: Role
    rows: int
    deletes: int
    bytes: int
    footer_bytes: int
    as_of: int
    memory: int = 0  # bytes that its rows take at the driver
    whole: bool = False  # a row removed here is removed with all its equals
    updates: bool = False  # each −1 row is the old image of an UPDATE, each +1 row the new one
    by_name: bool = False  # nested parts lack field ids (Spark gives list elements none): match by name
    written_as: Table | None = None  # … the names that the columns had when it was written
    stats: tuple[ColumnStats, ...] = ()
    outside: Outside | None = None  # where it is, if it is not in our data folder
    reason: str = ""  # why nobody knows what changed, for the role that says so
    id: int = -1
    begin: int = -1
    end: int | None = None

    @property
    def name(self) -> str:
        """Without the folder of its write, as Spark tells it."""
        return (self.outside.address if self.outside is not None else self.path).rpartition("/")[2]

    @property
    def tag(self) -> str:
        """What tells it apart from other files of its table: Spark knows no masks of outside ones."""
        return self.path if self.outside is not None else self.name

    @property
    def is_ours(self) -> bool:
        """Whether it lies in our data folder."""
        return self.outside is None and self.role is not Role.UNKNOWN

    @property
    def weight(self) -> int:
        """Rows this file adds to its table; every weight is +1 or −1."""
        return self.rows - 2 * self.deletes

    def make_removal(self, as_of: int) -> DataFile:
        """The change that all rows of this file go, without a copy of them."""
        return DataFile(
            path=self.path,
            role=Role.REMOVED,
            rows=self.rows,
            deletes=self.rows - self.deletes,
            bytes=self.bytes,
            footer_bytes=self.footer_bytes,
            as_of=as_of,
            memory=self.memory,
            outside=self.outside,
        )


@dataclass(frozen=True)
class Log:
    """The visible files of a table, split for reading.

    `settled` files hold the content before the first deletion: no row of them repeats a key.
    `tail` is everything since.
    """

    settled: tuple[DataFile, ...]
    tail: tuple[DataFile, ...]

    @property
    def tail_deletes(self) -> int:
        return sum(f.deletes for f in self.tail)

    @property
    def tail_memory(self) -> int:
        return sum(f.memory for f in self.tail)

    @property
    def tail_deletes_memory(self) -> int:
        """What the deleted rows take, as far as they are as wide as the others of their file."""
        return sum(f.memory * f.deletes // f.rows for f in self.tail if f.rows)

    @property
    def tail_is_one_change(self) -> bool:
        return len({f.as_of for f in self.tail}) == 1

    @property
    def tail_is_whole(self) -> bool:
        return all(f.whole or not f.deletes for f in self.tail)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self.settled + self.tail


def split_log(files: Iterable[DataFile]) -> Log:
    ordered = sorted(files, key=lambda f: (f.as_of, f.path))
    first = min((f.as_of for f in ordered if f.deletes), default=None)
    if first is None:
        return Log(tuple(ordered), ())
    settled = tuple(f for f in ordered if f.as_of < first)
    return Log(settled, tuple(f for f in ordered if f.as_of >= first))
