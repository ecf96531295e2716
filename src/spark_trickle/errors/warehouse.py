"""Errors of the warehouse and its surroundings: conflicts, locks, disks, files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_trickle.errors.base import AdvisedError, Kind, TrickleError, WordedError


@dataclass(eq=False)
class ConflictError(TrickleError):
    table: str
    read_snapshot: int
    other_snapshot: int
    change: str
    subject: str = ""  # what has changed, if it is not the table itself
    code: ClassVar[str] = "CONFLICT"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        subject = self.subject or f'"{self.table}"'
        return (
            f"{subject} was {self.change} by snapshot {self.other_snapshot} "
            f"after this transaction read snapshot {self.read_snapshot}; this transaction was not committed"
        )

    @property
    def hint(self) -> str:
        return "Run the transaction again; it will see the newer data."


@dataclass(eq=False)
class CatalogBusyError(TrickleError):
    catalog: str
    seconds: float
    code: ClassVar[str] = "CATALOG_BUSY"
    kind: ClassVar[Kind] = Kind.TRANSIENT

    @property
    def message(self) -> str:
        return f"the catalog {self.catalog} was locked by another process for {self.seconds:g} seconds"

    @property
    def hint(self) -> str:
        return "Try again. If it stays locked, look for the process that locks it, or raise catalog_timeout."


@dataclass(eq=False)
class WarehouseError(WordedError):
    """The folder, the catalog or the disk cannot be used."""

    code: ClassVar[str] = "WAREHOUSE_UNAVAILABLE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT


@dataclass(eq=False)
class WarehouseMismatchError(AdvisedError):
    """The catalog and the data folder do not belong together."""

    data_path: str
    detail: str
    advice: str
    code: ClassVar[str] = "WAREHOUSE_MISMATCH"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"the data folder {self.data_path} does not match the catalog: {self.detail}"


@dataclass(eq=False)
class BackupError(WordedError):
    """A backup cannot be written, or cannot be restored."""

    code: ClassVar[str] = "BACKUP_FAILED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT


@dataclass(eq=False)
class FolderNotSharedError(TrickleError):
    """The driver and the executors have different folders at the same path."""

    folder: str
    detail: str
    code: ClassVar[str] = "FOLDER_NOT_SHARED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"not all executors see {self.folder}: {self.detail}"

    @property
    def hint(self) -> str:
        return (
            "Mount the folder at this path on the driver and on every executor, or choose a data_path that "
            "they share; nothing was committed."
        )


@dataclass(eq=False)
class VersionError(TrickleError):
    found: str
    known: str
    code: ClassVar[str] = "WAREHOUSE_TOO_NEW"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"the warehouse has catalog version {self.found}, but this release supports {self.known}"

    @property
    def hint(self) -> str:
        return "Install a newer spark-trickle; this release could damage the warehouse."


@dataclass(eq=False)
class SparkLostError(TrickleError):
    """The process of Spark's driver is gone."""

    detail: str
    code: ClassVar[str] = "SPARK_LOST"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"Spark has stopped responding: {self.detail}"

    @property
    def hint(self) -> str:
        return (
            "Restart your program: everything that was committed is safe, and nothing else was changed. "
            "If Spark ran out of memory, raise spark.driver.memory or lower driver_megabytes."
        )


@dataclass(eq=False)
class DamagedFileError(TrickleError):
    table: str
    path: str
    detail: str
    code: ClassVar[str] = "DAMAGED_FILE"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        of_table = f' of table "{self.table}"' if self.table else ""
        return f"a data file{of_table} is damaged: {self.path} {self.detail}"

    @property
    def hint(self) -> str:
        return "Restore the file from a backup; snapshots that do not use it can still be read."
