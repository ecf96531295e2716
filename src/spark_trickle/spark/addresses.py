"""Addresses of files -> what Spark is asked for, and back.

Plain Spark reads S3 through Hadoop's client, which is called s3a; all others say s3. Where Spark knows s3
too, it knows s3a as well.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

_OURS, _SPARKS = "s3://", "s3a://"
_PATTERN = re.compile(r"([\[\]{}*?\\])")


def name_in_spark(address: str) -> str:
    """What Spark calls a file or a folder."""
    return _SPARKS + address.removeprefix(_OURS) if address.startswith(_OURS) else address


def write_pattern(address: str) -> str:
    """An address for reading, which Spark takes as a pattern: a folder may be called "sales [2026]"."""
    return _PATTERN.sub(r"\\\1", name_in_spark(address))


def read_address(uri: Column, like: str) -> Column:
    """Spark's URI of a file as an address that begins like another one of the same storage."""
    decoded = F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))
    if like.startswith(_OURS):
        decoded = F.regexp_replace(decoded, f"^{_SPARKS}", _OURS)
    return F.regexp_replace(decoded, "^file:/+", "/")
