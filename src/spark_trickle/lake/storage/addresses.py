"""An address of a file -> the filesystem that has it."""

from __future__ import annotations

from pyarrow import fs


def open_address(address: str) -> tuple[fs.FileSystem, str]:
    """The filesystem of an address, and what it calls the file."""
    if "://" not in address:
        return fs.LocalFileSystem(), address
    # Hadoop calls its client of S3 s3a, pyarrow calls its own s3.
    filesystem, path = fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    return filesystem, path
