"""Errors of sources and targets: fields in, message and hint out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_trickle.errors.base import Kind, TrickleError, WordedError, shorten_text, suggest_closest


@dataclass(eq=False)
class SourceAddressError(WordedError):
    """The address of a source is not one; it never shows the address, which may hold a secret."""

    code: ClassVar[str] = "SOURCE_ADDRESS"
    kind: ClassVar[Kind] = Kind.USER


@dataclass(eq=False)
class SourceNotFoundError(TrickleError):
    source: str
    available: tuple[str, ...]
    code: ClassVar[str] = "SOURCE_NOT_FOUND"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'there is no source "{self.source}"'

    @property
    def hint(self) -> str:
        if not self.available:
            return "Attach one with ATTACH SOURCE name TYPE … OPTIONS (…)."
        return suggest_closest(self.source, self.available, "sources")


@dataclass(eq=False)
class SourceUnavailableError(TrickleError):
    detail: str
    code: ClassVar[str] = "SOURCE_UNAVAILABLE"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return f"the source cannot be reached: {self.detail}"

    @property
    def hint(self) -> str:
        return "Check that the server is running and the address is right; nothing was consumed."


@dataclass(eq=False)
class SourceUnreadableError(TrickleError):
    """What lies in a source is damaged, or nothing that its reader understands."""

    source: str
    table: str  # empty if it is not about a single one
    detail: str
    code: ClassVar[str] = "SOURCE_UNREADABLE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        what = f'the table "{self.table}" of the source' if self.table else "the source"
        return f'{what} "{self.source}" cannot be read: {self.detail}'

    @property
    def hint(self) -> str:
        return "Check it with the tools of its owner; our tables keep their last exact rows."


@dataclass(eq=False)
class SourceBusyError(WordedError):
    advice: str = "Try again; it may have to wait for long transactions of the application to end."
    code: ClassVar[str] = "SOURCE_BUSY"
    kind: ClassVar[Kind] = Kind.TRANSIENT


@dataclass(eq=False)
class SourceSetupError(WordedError):
    """The server, its settings or the rights of our role do not let us capture."""

    code: ClassVar[str] = "SOURCE_SETUP"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT


@dataclass(eq=False)
class SourceValueError(TrickleError):
    """A value of the source that our type for its column cannot hold."""

    column: str
    type: str
    value: str
    code: ClassVar[str] = "SOURCE_VALUE"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f'column "{self.column}" holds {shorten_text(self.value)}, which {self.type} cannot represent'

    @property
    def hint(self) -> str:
        return "Correct the value in the source, capture this column as text, or leave the column out."


@dataclass(eq=False)
class ReplicaIdentityError(TrickleError):
    table: str
    statement: str
    code: ClassVar[str] = "REPLICA_IDENTITY"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'nothing identifies the rows of table "{self.table}" in the write-ahead log'

    @property
    def hint(self) -> str:
        return f"Run {self.statement}, give the table a primary key, or capture it with triggers."


@dataclass(eq=False)
class SourceSchemaChangedError(TrickleError):
    table: str
    changes: tuple[str, ...]
    code: ClassVar[str] = "SOURCE_SCHEMA_CHANGED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the definition of the source table "{self.table}" has changed: {"; ".join(self.changes)}'

    @property
    def hint(self) -> str:
        return "Run RESYNC TABLE to adopt the new columns; until then the mirror stays as it is."


@dataclass(eq=False)
class ResyncNeededError(TrickleError):
    """Changes of a table are lost for good: only a new copy makes the mirror right again."""

    table: str
    reason: str
    code: ClassVar[str] = "RESYNC_NEEDED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'changes of "{self.table}" were lost: {self.reason}'

    @property
    def hint(self) -> str:
        return "Run RESYNC TABLE to copy the table again; until then the mirror keeps its last exact state."


@dataclass(eq=False)
class OutsideFileError(TrickleError):
    """A file of a table in place is not as its log describes it."""

    table: str  # empty where it is not known
    address: str
    detail: str
    code: ClassVar[str] = "OUTSIDE_FILE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        of = f' of "{self.table}"' if self.table else ""
        return f"the file {self.address}{of} {self.detail}"

    @property
    def hint(self) -> str:
        return "Run SYNC SOURCE to go on from the newest version; keep old versions there for longer."


@dataclass(eq=False)
class ChangesUnknownError(TrickleError):
    """A table in place has a new version, but nobody can tell any more which of its rows changed."""

    table: str
    snapshot: int
    reason: str
    code: ClassVar[str] = "CHANGES_UNKNOWN"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'the changes of snapshot {self.snapshot} in "{self.table}" are unknown: {self.reason}'

    @property
    def hint(self) -> str:
        return "Read the table as a whole, or its changes after that snapshot."


@dataclass(eq=False)
class WalDecodeError(TrickleError):
    detail: str
    offset: int
    code: ClassVar[str] = "WAL_DECODE"
    kind: ClassVar[Kind] = Kind.BUG

    @property
    def message(self) -> str:
        return f"a message of the write-ahead log cannot be read at byte {self.offset}: {self.detail}"


@dataclass(eq=False)
class WarehouseCopiedError(TrickleError):
    """A source serves only one copy of a warehouse, and only one copy writes a published table."""

    serves: str
    served: str
    ours: str
    take_over: str
    code: ClassVar[str] = "WAREHOUSE_COPIED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"{self.serves} the copy of this warehouse at {self.served}, but this copy is at {self.ours}"

    @property
    def hint(self) -> str:
        return (
            "To keep both copies, give this one its own identity with ALTER WAREHOUSE RENEW IDENTITY. "
            f"If you moved or restored the warehouse, run {self.take_over}, which locks out the other copy."
        )


# --- publishing ----------------------------------------------------------------------------------


@dataclass(eq=False)
class TargetExistsError(TrickleError):
    table: str
    reason: str
    code: ClassVar[str] = "TARGET_EXISTS"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'"{self.table}" already exists in the target database: {self.reason}'

    @property
    def hint(self) -> str:
        return "Publish under another name, or drop the existing table if nobody needs it."


@dataclass(eq=False)
class NotPublishedError(TrickleError):
    stream: str
    table: str
    other: str = ""  # what is published there instead
    code: ClassVar[str] = "NOT_PUBLISHED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        where = f' as "{self.table}"' if self.table else ""
        instead = f", but {self.other} is" if self.other else ""
        return f'"{self.stream}" is not published{where}{instead}'

    @property
    def hint(self) -> str:
        if self.other:
            return (
                f"Run UNPUBLISH STREAM TABLE {self.stream}, which does not touch the table in the target, "
                "and publish it under another name."
            )
        return "Publish it first; the ledger in the target database lists what is published."


@dataclass(eq=False)
class RepairNeededError(TrickleError):
    """Somebody else changed a published table: applying our next change to it would go wrong."""

    table: str
    reason: str
    code: ClassVar[str] = "REPAIR_NEEDED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'the published table "{self.table}" must be repaired: {self.reason}'

    @property
    def hint(self) -> str:
        return (
            "Run PUBLISH STREAM TABLE … REPAIR, which changes only the rows that differ; "
            "until then the table stays as it is."
        )


@dataclass(eq=False)
class TargetChangedError(TrickleError):
    table: str
    changes: tuple[str, ...]
    code: ClassVar[str] = "TARGET_CHANGED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the definition of the published table "{self.table}" was changed: {"; ".join(self.changes)}'

    @property
    def hint(self) -> str:
        return (
            "Undo the change in the target database. Or run UNPUBLISH STREAM TABLE, which keeps this table "
            "as it is for its readers, and publish the stream table under another name."
        )


@dataclass(eq=False)
class TargetRefusedError(TrickleError):
    """A constraint, a trigger, a view, a feature or a limit of the target is in the way."""

    table: str
    detail: str
    code: ClassVar[str] = "TARGET_REFUSED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'the target refuses the change to the published table "{self.table}": {self.detail}'

    @property
    def hint(self) -> str:
        return "Remove what the error names, such as a constraint, a trigger or a view; nothing was changed."


@dataclass(eq=False)
class TargetValueError(TrickleError):
    """A value of ours that the type of its column in the target cannot hold."""

    column: str
    type: str
    value: str
    code: ClassVar[str] = "TARGET_VALUE"
    kind: ClassVar[Kind] = Kind.UNSUPPORTED

    @property
    def message(self) -> str:
        return f'column "{self.column}" holds {shorten_text(self.value)}, which {self.type} cannot represent'

    @property
    def hint(self) -> str:
        return "Change the query so that it returns another value, or leave the column out."
