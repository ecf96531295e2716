"""The address of a folder as people write it -> an absolute path on this machine, or a clear refusal."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_trickle.errors import WarehouseError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def local_folder(address: str) -> str:
    """A plain path is taken literally; in a `file:` address %20 is a space."""
    found = _SCHEME.match(address)
    if found is None:
        return str(Path(address).absolute())
    scheme = found[1].lower()
    if scheme != "file":
        raise WarehouseError(
            f'data files cannot live in "{scheme}:" yet',
            "Give a folder that this machine and all executors see, as a path or as file:///folder.",
        )
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise WarehouseError(
            f'"{address}" does not name a folder of this machine',
            "Write file:///folder, with %23 for # and %3F for ?, or the plain path.",
        )
    return str(Path(path).absolute())


def is_local_address(address: str) -> bool:
    """Whether an address names a folder, and not a database."""
    found = _SCHEME.match(address)
    return "://" not in address if found is None else found[1].lower() == "file"
