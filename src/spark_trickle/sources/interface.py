"""What a source is to us, whatever system it is: tables, versions of them, and what changed between two.

A source that implements `SourceReader` gets all that belongs to sources: ATTACH, SYNC, status, metrics, the
scheduler. `sources/followed` does that; PostgreSQL alone has a way of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from spark_trickle.model.arriving import ArrivingFile, FileFormat
from spark_trickle.model.files import Mask, Outside
from spark_trickle.model.table import WEIGHT

Version = str  # of a table, in words that only its source understands


@dataclass(frozen=True)
class Capabilities:
    """What a kind of source can do."""

    in_place: bool  # its tables are Parquet files that Spark reads where they are
    append_only: bool = False  # rows only come
    transactional: bool = False  # all of its tables change in one transaction
    loads: bool = False  # its tables are files that Spark loads once each (`Arrivals`)
    can_be_empty: bool = False  # a place without a table is no mistake: tables can be published there
    log: bool = False  # its tables are logs that are read in batches (`Records`)


@dataclass(frozen=True)
class RemoteColumn:
    """A column of a table there: `type` is Spark's JSON form of a type.

    `lasting` is what stays when the column is renamed. `written` and `written_type` are how the files hold
    the column, where that differs. If files tell columns apart by numbers, `field_id` is that of the column,
    and `written_type` has those of its parts, as metadata of its fields.
    """

    name: str
    type: Any
    lasting: str = ""
    written: str = ""
    written_type: Any = None
    field_id: int | None = None

    @property
    def identity(self) -> str:
        return self.lasting or self.name


@dataclass(frozen=True)
class RemoteTable:
    """A table there.

    `key` names the columns that tell rows apart, `rejects` those that tell of bad records. `identity` tells
    the table from one that is made again under its name, with other columns.
    """

    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...] = ()
    rejects: tuple[RemoteColumn, ...] = ()
    identity: str = ""


@dataclass(frozen=True)
class LoadedTable:
    """A table whose columns Spark tells: from their definition, or from the files if there is none."""

    name: str
    schema: str = ""


@dataclass(frozen=True)
class ColumnBounds:
    """What a file is known to hold of one column."""

    nulls: int | None
    low: Any
    high: Any


@dataclass(frozen=True)
class RemoteFile:
    """A Parquet file of a table in place.

    `values` are the texts of columns that are not in it, by the names that files have for columns.
    """

    address: str
    bytes: int
    rows: int
    values: tuple[tuple[str, str | None], ...] = ()
    mask: Mask | None = None
    deletes: int = 0  # rows that went, of a file that tells changes
    tells_changes: bool = False
    bounds: Mapping[str, ColumnBounds] = field(default_factory=dict, compare=False)

    @property
    def path(self) -> str:
        return Outside(self.address, mask=self.mask).path


@dataclass(frozen=True)
class FileContent:
    """The files that a version of a table consists of."""

    files: tuple[RemoteFile, ...]


@dataclass(frozen=True)
class FileChange:
    """What happened to the files of a table between two versions; files that went are named by their path.

    All rows of `inserted` files are new, and all of `deleted` ones went. What `rewritten` files hold beyond
    the `replaced` ones is the change of those. Rows that only moved to other files did not change.
    """

    inserted: tuple[RemoteFile, ...] = ()
    deleted: tuple[str, ...] = ()
    rewritten: tuple[RemoteFile, ...] = ()
    replaced: tuple[str, ...] = ()
    moved_to: tuple[RemoteFile, ...] = ()
    moved_from: tuple[str, ...] = ()
    recorded: tuple[RemoteFile, ...] = ()  # rows that tell how they changed, in files that moved

    @property
    def added(self) -> tuple[RemoteFile, ...]:
        return (*self.inserted, *self.rewritten, *self.moved_to)

    @property
    def removed(self) -> tuple[str, ...]:
        return (*self.deleted, *self.replaced, *self.moved_from)


@dataclass(frozen=True)
class RowChange:
    """Rows with weights, some at a time: what a source that is copied tells of a table (`weigh_rows`)."""

    pieces: Iterator[pa.Table]


@dataclass(frozen=True)
class Records:
    """The next batch of a log, some rows at a time; `reached` is the version that it ends with.

    With `by_key`, a row replaces the one of the same key; one with the weight −1 says that the key is gone.
    """

    pieces: Iterator[pa.Table]
    rejects: Callable[[], pa.Table]  # what does not fit, once all pieces were read
    reached: Version
    size: int  # records at most
    waiting: int  # records at most that come after it
    by_key: bool = False


@dataclass(frozen=True)
class Lost:
    """Records were deleted before they were read. `rest` comes after them; without it, all has to be read."""

    reason: str
    rest: Records | None = None


class Overwritten(StrEnum):
    """What happens when a file that was loaded is overwritten."""

    REPLACE = "replace"
    REJECT = "reject"
    IGNORE = "ignore"


@dataclass(frozen=True)
class Inspected:
    """What a file tells of itself: `layout` is the same for files with the same columns."""

    file: ArrivingFile
    layout: str = ""
    names: tuple[str, ...] = ()
    problem: str = ""  # why it cannot be read
    is_gone: bool = False


@dataclass(frozen=True)
class Arrivals:
    """Files that are there, in the order to load them in; which of them were loaded, we know."""

    files: tuple[ArrivingFile, ...]
    format: FileFormat
    most: int  # files at a time
    overwritten: Overwritten
    evolves: bool  # columns that files have more become columns of the table
    inspect: Callable[[Sequence[ArrivingFile]], tuple[Inspected, ...]]
    look_again: Callable[[Sequence[ArrivingFile]], tuple[ArrivingFile | None, ...]]


def weigh_rows(rows: pa.Table, weight: int) -> pa.Table:
    """Rows that came (1) or went (-1)."""
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int32()), rows.num_rows))


@dataclass(frozen=True)
class Resync:
    """Nobody can tell any more what changed; the table has to be compared as a whole."""

    reason: str


Content = FileContent | RowChange | Arrivals | Records
Change = FileChange | RowChange | Arrivals | Records | Lost | Resync


class SourceReader(Protocol):
    """One attached source while it is used."""

    @property
    def capabilities(self) -> Capabilities: ...

    def discover(self) -> tuple[str, ...]:
        """The names of its tables."""

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        """The newest version of each table, of one moment where it can; a table that is gone is left out."""

    def describe(self, table: str, at: Version) -> RemoteTable | LoadedTable:
        """The columns of a table."""

    def read(self, table: str, at: Version) -> Content:
        """All of a table at a version; may be asked again after a crash."""

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        """What changed from one version to another."""

    def release(self, upto: Mapping[str, Version]) -> None:
        """What lies before these versions is in our commits, and not needed any more."""

    def close(self) -> None:
        """End its connections."""


class Configurable(Protocol):
    """A source whose tables have options of their own."""

    def configure(self, table: str, options: Any) -> None:
        """What was said of a table when it was made, told before anything is asked of the table."""
