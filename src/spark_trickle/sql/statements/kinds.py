"""What a user can ask for, as values. Expressions and queries inside stay the user's own text."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_trickle.model.stream import Mode
from spark_trickle.model.stream_options import OptionValues, StreamOptions

Name = tuple[str, ...]


@dataclass(frozen=True)
class Query:
    """Anything that Spark runs by itself once our tables are filled in."""

    sql: str


@dataclass(frozen=True)
class CreateTempView:
    name: str
    replace: bool
    query: str


# --- definitions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    comment: str | None = None
    primary_key: bool = False
    key_enforced: bool = True


@dataclass(frozen=True)
class CreateTable:
    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    key: tuple[str, ...] = ()
    key_enforced: bool = True
    if_not_exists: bool = False
    replace: bool = False
    query: str | None = None


@dataclass(frozen=True)
class DropTable:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class CreateSchema:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropSchema:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class CreateView:
    name: Name
    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class DropView:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class AddColumns:
    table: Name
    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumns:
    table: Name
    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    table: Name
    old: str
    new: str


@dataclass(frozen=True)
class AlterColumn:
    """One change of a column; what is None stays as it is."""

    table: Name
    column: str
    type: str | None = None
    nullable: bool | None = None
    default: str | None = None
    drop_default: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class RenameTable:
    table: Name
    new: Name


# --- changes of rows -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Insert:
    table: Name
    source: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: bool = False
    ctes: str = ""  # WITH … before the statement


@dataclass(frozen=True)
class Assignment:
    column: str
    value: str


@dataclass(frozen=True)
class Update:
    table: Name
    alias: str | None
    assignments: tuple[Assignment, ...]
    source: str | None = None  # FROM …
    where: str | None = None
    ctes: str = ""


@dataclass(frozen=True)
class Delete:
    table: Name
    alias: str | None
    source: str | None = None  # USING …
    where: str | None = None
    ctes: str = ""


@dataclass(frozen=True)
class MergeClause:
    """WHEN …; `assignments` of None means all columns (*), `delete` removes the row."""

    matched: bool
    by_source: bool  # NOT MATCHED BY SOURCE
    condition: str | None
    delete: bool
    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class Merge:
    table: Name
    alias: str | None
    source: str
    condition: str
    clauses: tuple[MergeClause, ...]
    ctes: str = ""


@dataclass(frozen=True)
class Truncate:
    table: Name


# --- transactions, maintenance, looking around ---------------------------------------------------


@dataclass(frozen=True)
class Begin:
    pass


@dataclass(frozen=True)
class CommitWork:
    pass


@dataclass(frozen=True)
class Rollback:
    pass


@dataclass(frozen=True)
class Optimize:
    table: Name


@dataclass(frozen=True)
class Vacuum:
    table: Name | None
    retain_hours: float | None
    dry_run: bool = False


@dataclass(frozen=True)
class BackUp:
    """Copy the whole warehouse to a folder, which may hold earlier backups of it."""

    folder: str
    link: bool = False  # share the files with the backup, where the disk is the same


@dataclass(frozen=True)
class RenewIdentity:
    """Make a copy of a warehouse a warehouse of its own."""


@dataclass(frozen=True)
class Use:
    schema: str


@dataclass(frozen=True)
class ShowTables:
    schema: str | None
    pattern: str | None


@dataclass(frozen=True)
class ShowSchemas:
    pattern: str | None


@dataclass(frozen=True)
class ShowColumns:
    table: Name


@dataclass(frozen=True)
class ShowCreateTable:
    table: Name


@dataclass(frozen=True)
class Describe:
    table: Name


@dataclass(frozen=True)
class SetSetting:
    name: str
    value: str


@dataclass(frozen=True)
class ShowSettings:
    name: str | None


Definition = (
    CreateTable
    | DropTable
    | CreateSchema
    | DropSchema
    | CreateView
    | DropView
    | AddColumns
    | DropColumns
    | RenameColumn
    | AlterColumn
    | RenameTable
)
RowChange = Insert | Update | Delete | Merge | Truncate


@dataclass(frozen=True)
class CreateStream:
    name: Name
    query: str
    columns: tuple[str, ...] = ()
    schedule: str | None = None
    mode: Mode = Mode.AUTO
    options: StreamOptions = field(default_factory=StreamOptions)
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class AlterStream:
    """What is not given stays as it is."""

    name: Name
    query: str | None = None
    schedule: str | None = None
    mode: Mode | None = None
    options: OptionValues = ()


@dataclass(frozen=True)
class DropStream:
    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class SteerStream:
    """Whether the scheduler refreshes it."""

    name: Name
    suspended: bool


@dataclass(frozen=True)
class RefreshStream:
    name: Name


@dataclass(frozen=True)
class ExplainStream:
    name: Name


@dataclass(frozen=True)
class ExplainQuery:
    """What a stream table with this query would be."""

    query: str


@dataclass(frozen=True)
class AttachSource:
    name: str
    kind: str
    options: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DetachSource:
    """Its mirrors become tables of their own, or go with it."""

    name: str
    if_exists: bool = False
    cascade: bool = False
    force: bool = False  # even if the source cannot be reached and keeps what we made there


@dataclass(frozen=True)
class SyncSource:
    name: str
    take_over: bool = False  # from another copy of this warehouse


@dataclass(frozen=True)
class MirrorTable:
    """A table that follows one of a source."""

    name: Name
    source: Name
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class MirrorTables:
    """A mirror for every table that some patterns mean."""

    source: str
    patterns: str
    schema: str | None = None


@dataclass(frozen=True)
class WidenMirror:
    table: Name
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ResyncTable:
    table: Name


@dataclass(frozen=True)
class PublishStream:
    name: Name
    source: str
    target: Name
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RepairPublished:
    name: Name


@dataclass(frozen=True)
class UnpublishStream:
    name: Name
    keep: bool = True  # the table there stays as it is, for those who read it


CaptureStatement = (
    AttachSource | DetachSource | SyncSource | MirrorTable | MirrorTables | WidenMirror | ResyncTable
)
PublishStatement = PublishStream | RepairPublished | UnpublishStream
StreamChange = CreateStream | AlterStream | DropStream
ExplainStreams = ExplainStream | ExplainQuery
Look = ShowTables | ShowSchemas | ShowColumns | ShowCreateTable | Describe | ShowSettings
Statement = (
    Query
    | CreateTempView
    | Definition
    | RowChange
    | StreamChange
    | RefreshStream
    | SteerStream
    | CaptureStatement
    | PublishStatement
    | ExplainStreams
    | Look
    | Begin
    | CommitWork
    | Rollback
    | Optimize
    | Vacuum
    | BackUp
    | RenewIdentity
    | Use
    | SetSetting
)
