"""Files that arrive in a folder, and how Spark reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

# Columns that every table of arriving files has beside those of the files.
FILE, LOADED_AT = "_file", "_loaded_at"


@dataclass(frozen=True)
class ArrivingFile:
    """A file at some time; another size or another time means that it was overwritten."""

    address: str
    bytes: int
    modified: datetime  # to the microsecond


@dataclass(frozen=True)
class FileFormat:
    """A format by the name that it has for Spark's reader."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    by_record: bool = False  # text, where one record may be bad and the next one good
    by_position: bool = False  # columns have no names there, but an order


@dataclass(frozen=True)
class FileColumn:
    """A column as a file has it: `type` is Spark's JSON form of a type."""

    name: str
    type: Any


@dataclass(frozen=True)
class FileScan:
    """Files that hold the same columns in the same order."""

    files: tuple[str, ...]
    columns: tuple[FileColumn, ...]
