"""OPTIONS of ATTACH SOURCE -> values, or an error that says what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, fields
from enum import StrEnum
from typing import Any, TypeVar

from spark_trickle.errors import InvalidDefinitionError, SourceAddressError, suggest_closest

# A user with a password, or a key with its secret, which may hold a slash; the name of a bucket has no colon.
_SECRET = re.compile(
    r"[a-z0-9+.-]+://[^/@]*:[^/@]*@|s3a?://[^/]*:|[?&][^/=]*(secret|key|token|password|sig)[^/=]*=",
    re.IGNORECASE,
)
_SQLITE = "sqlite:///"
SWITCH = {"true": True, "false": False}

T = TypeVar("T")


def option(
    default: Any, meaning: str, choices: Mapping[str, object] | None = None, is_path: bool = False
) -> Any:
    """A field of a class of options; `choices` are what a user may write, with the value that each means."""
    return field(default=default, metadata={"meaning": meaning, "choices": choices or {}, "is_path": is_path})


def name_members(kind: type[StrEnum]) -> dict[str, object]:
    return {member.value: member for member in kind}


def settle_paths(kind: type[Any], given: Mapping[str, str]) -> dict[str, str]:
    """Options whose paths mean the same from wherever a process is started."""
    paths = {f.name for f in fields(kind) if f.metadata["is_path"]}
    return {n: _settle_path(v) if n in paths and v else v for n, v in given.items()}


def _settle_path(path: str) -> str:
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if path.startswith(_SQLITE):
        return _SQLITE + os.path.abspath(path.removeprefix(_SQLITE))
    return path if "://" in path or path.startswith("env:") else os.path.abspath(path)


def parse_options(kind: type[T], given: Mapping[str, str], owner: str = "a source") -> T:
    """The options of one kind of source; `kind` is a dataclass of options."""
    known = {f.name: f.metadata["choices"] for f in fields(kind)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in known:
            raise InvalidDefinitionError(
                f'there is no option "{name}" of {owner}', suggest_closest(name, tuple(known), "options")
            )
        if known[name] and value.lower() not in known[name]:
            raise InvalidDefinitionError(
                f'"{value}" is not a value for the option "{name}"',
                f"Choose {' or '.join(known[name])}.",
            )
    parsed = kind(**{n: known[n][v.lower()] if known[n] else v for n, v in given.items()})
    for f in fields(kind):  # type: ignore[arg-type]
        if f.metadata["is_path"] and holds_secret(given.get(f.name, "")):
            raise SourceAddressError(
                f'the option "{f.name}" contains a secret',
                "Leave it out: the environment says who we are, and the configuration of Spark tells Spark.",
            )
    return parsed


def holds_secret(address: str) -> bool:
    """Whether an address would bring a secret into the catalog."""
    return _SECRET.search(address) is not None
