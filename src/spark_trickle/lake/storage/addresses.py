"""An address of a file -> the filesystem that has it, and the file itself.

What is wrong with a storage is told apart from what is wrong with a file: the one passes, the other stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

from spark_trickle.errors import OutsideFileError, SourceAddressError, SourceUnavailableError

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_FILESYSTEMS = 64  # that are remembered: each has connections of its own, and some ask where their bucket is
_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")  # begin the variables that say who we are there, and where that is
# What pyarrow says of S3, Azure and Google, and what the clients in deltalake say.
_OF_STORAGE = re.compile("AWS Error|Azure Error|google::cloud::Status|Generic \\w+ error")
_NOT_THERE = re.compile("NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound")


def open_address(address: str) -> tuple[fs.FileSystem, str]:
    """The filesystem of an address, and what it calls the file.

    The path is taken letter by letter, as Spark takes it: `%20` is no space.
    """
    start = _AUTHORITY.match(address)
    if start is None:
        return fs.LocalFileSystem(), address
    environment = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(_CLOUDS)))
    filesystem, base = _open_storage(start[0], environment)
    return filesystem, base.rstrip("/") + address[start.end() :]


@lru_cache(_FILESYSTEMS)
def _open_storage(start: str, _environment: tuple[tuple[str, str], ...]) -> tuple[fs.FileSystem, str]:
    """One client for a bucket, and for the environment that tells it what to do."""
    try:
        # Hadoop calls its client of S3 s3a, pyarrow calls its own s3.
        filesystem, base = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", start))
    except pa.ArrowInvalid:
        scheme = start.partition("://")[0]
        raise SourceAddressError(
            f'addresses that begin with "{scheme}://" are not known', "Use s3://, gs://, abfss:// or a path."
        ) from None
    return filesystem, base


def is_local(filesystem: fs.FileSystem) -> bool:
    return isinstance(filesystem, fs.LocalFileSystem)


@contextmanager
def open_file(address: str, table: str = "") -> Iterator[pa.NativeFile]:
    """A file for reading; `table` is whose it is, for messages."""
    try:
        filesystem, path = open_address(address)
        with filesystem.open_input_file(path) as source:
            yield source
    except FileNotFoundError:
        raise OutsideFileError(table, address, "is gone") from None
    except OSError as error:
        require_storage(error)
        raise


@contextmanager
def explain_storage() -> Iterator[None]:
    """Use a storage in the block."""
    try:
        yield
    except OSError as error:
        require_storage(error)
        raise


def require_storage(error: Exception) -> None:
    """Raise what stands for an error of the storage; other errors are of the file."""
    if _OF_STORAGE.search(str(error)):
        raise SourceUnavailableError(str(error).splitlines()[0]) from None


@contextmanager
def explain_folder(folder: str) -> Iterator[None]:
    """Look into a folder in the block."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: no address that pyarrow knows
        if isinstance(error, OSError) and not _NOT_THERE.search(str(error)):
            require_storage(error)
        raise SourceAddressError(
            f"the folder {folder} cannot be read", "Check the path and your permission to read it."
        ) from None
