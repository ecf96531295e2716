"""The `deltalake` library, which is needed only to write."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

from spark_trickle.errors import SourceSetupError

_PLAIN = "http://"
_RETRIES = {"max_retries": "3", "retry_timeout": "30s"}  # more would hold up the other tables for minutes


def require_deltalake() -> Any:
    """The module; reading Delta tables works without it."""
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError:
        raise SourceSetupError(
            "publishing to Delta Lake needs the library deltalake, which is not installed",
            "Install it with pip install 'spark-trickle[delta]'.",
        ) from None
    return deltalake


def open_table(address: str, version: int | None = None) -> Any:
    """A table as the library opens it."""
    return require_deltalake().DeltaTable(
        write_uri(address), version=version, storage_options=choose_storage_options(address)
    )


def write_uri(address: str) -> str:
    """An address as the library wants it: of a bucket as a URI, in which `%20` is a space."""
    scheme, found, rest = address.partition("://")
    return f"{scheme}://{quote(rest, safe='/@:')}" if found else address


def choose_storage_options(address: str) -> dict[str, str] | None:
    """What the library does not find out from the environment by itself."""
    if "://" not in address:
        return None
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    plain = endpoint.startswith(_PLAIN)
    return {**_RETRIES, **({"allow_http": "true"} if plain else {})}
