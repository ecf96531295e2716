"""What can go wrong between us and PostgreSQL, source or target: fields in, message and hint out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_trickle.errors.base import Kind, TrickleError, closest, short


@dataclass(eq=False)
class SourceAddressError(TrickleError):
    """The address of a source is not one; it never shows the address, which may hold a secret."""

    detail: str
    advice: str
    code: ClassVar[str] = "SOURCE_ADDRESS"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


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
            return "Attach one with ATTACH SOURCE … TYPE postgres OPTIONS (dsn 'env:NAME')."
        return closest(self.source, self.available, "sources")


@dataclass(eq=False)
class SourceUnavailableError(TrickleError):
    detail: str
    code: ClassVar[str] = "SOURCE_UNAVAILABLE"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return f"the PostgreSQL source cannot be reached: {self.detail}"

    @property
    def hint(self) -> str:
        return "Check that the server runs and the address is right; what was captured so far is kept."


@dataclass(eq=False)
class SourceBusyError(TrickleError):
    detail: str
    advice: str = "Try again; long transactions of the application may have to end first."
    code: ClassVar[str] = "SOURCE_BUSY"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class SourceSetupError(TrickleError):
    """The server, its settings or the rights of our role do not let us capture."""

    detail: str
    advice: str
    code: ClassVar[str] = "SOURCE_SETUP"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return self.detail

    @property
    def hint(self) -> str:
        return self.advice


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
        return f'column "{self.column}" holds {short(self.value)}, which {self.type} cannot represent'

    @property
    def hint(self) -> str:
        return "Correct the value in the source, or capture this column as text, or leave it out."


@dataclass(eq=False)
class ReplicaIdentityError(TrickleError):
    table: str
    statement: str
    code: ClassVar[str] = "REPLICA_IDENTITY"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'table "{self.table}" has nothing that identifies its rows in the write-ahead log'

    @property
    def hint(self) -> str:
        return f"Run {self.statement}; or give it a primary key, or capture it with triggers."


@dataclass(eq=False)
class SourceSchemaChangedError(TrickleError):
    table: str
    changes: tuple[str, ...]
    code: ClassVar[str] = "SOURCE_SCHEMA_CHANGED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the source table "{self.table}" is not what it was: {"; ".join(self.changes)}'

    @property
    def hint(self) -> str:
        return "Bring the mirror to the new columns and copy the table again; until then it stays as it is."


@dataclass(eq=False)
class ResyncNeededError(TrickleError):
    """Changes of a table are gone for good: only a new copy makes the mirror right again."""

    table: str
    reason: str
    code: ClassVar[str] = "RESYNC_NEEDED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'changes of "{self.table}" were lost: {self.reason}'

    @property
    def hint(self) -> str:
        return "Copy the table again; the mirror keeps its last exact state until then."


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
    """Of the copies of a warehouse a source serves one, and a published table is written by one."""

    serves: str
    served: str
    ours: str
    take_over: str
    code: ClassVar[str] = "WAREHOUSE_COPIED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"{self.serves} the copy of this warehouse at {self.served}, and this one is at {self.ours}"

    @property
    def hint(self) -> str:
        return (
            "If both are to live, give this copy an identity of its own with ALTER WAREHOUSE RENEW IDENTITY. "
            f"If the warehouse was moved or restored, run {self.take_over}; the other copy is refused then."
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
        return f'"{self.table}" exists in the target database already: {self.reason}'

    @property
    def hint(self) -> str:
        return "Publish under another name, or drop what is there if nobody needs it."


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
                f"Run UNPUBLISH STREAM TABLE {self.stream}, which leaves the table there alone, "
                "and publish it under another name."
            )
        return "Publish it first; the ledger in the target database lists what is published."


@dataclass(eq=False)
class RepairNeededError(TrickleError):
    """A published table is not what we made of it: a change of what it should be would go wrong."""

    table: str
    reason: str
    code: ClassVar[str] = "REPAIR_NEEDED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'the published table "{self.table}" needs a repair: {self.reason}'

    @property
    def hint(self) -> str:
        return "Repair it, which changes only what differs; until then it stays as it is."


@dataclass(eq=False)
class TargetChangedError(TrickleError):
    table: str
    changes: tuple[str, ...]
    code: ClassVar[str] = "TARGET_CHANGED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the published table "{self.table}" is not what we made: {"; ".join(self.changes)}'

    @property
    def hint(self) -> str:
        return (
            "Undo this in the target database; or UNPUBLISH the stream table, which leaves this table to its "
            "readers as it is, and publish it under another name."
        )


@dataclass(eq=False)
class TargetRefusedError(TrickleError):
    """A constraint, a trigger, a view or a limit of the target database is in the way."""

    table: str
    detail: str
    code: ClassVar[str] = "TARGET_REFUSED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f'the published table "{self.table}" refuses this: {self.detail}'

    @property
    def hint(self) -> str:
        return "Remove what the error names, a constraint, a trigger or a view; nothing was changed."


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
        return f'column "{self.column}" holds {short(self.value)}, which {self.type} cannot represent'

    @property
    def hint(self) -> str:
        return "Change the query so that it gives another value, or leave the column out."
