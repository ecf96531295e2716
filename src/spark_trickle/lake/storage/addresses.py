"""An address of a file -> the filesystem that has it."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import fs

from spark_trickle.errors import SourceAddressError


def open_address(address: str) -> tuple[fs.FileSystem, str]:
    """The filesystem of an address, and what it calls the file."""
    if "://" not in address:
        return fs.LocalFileSystem(), address
    # Hadoop calls its client of S3 s3a, pyarrow calls its own s3.
    try:
        filesystem, path = fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    except pa.ArrowInvalid:
        scheme = address.partition("://")[0]
        raise SourceAddressError(
            f'addresses that begin with "{scheme}://" are not known', "Use s3://, gs://, abfss:// or a path."
        ) from None
    return filesystem, path
