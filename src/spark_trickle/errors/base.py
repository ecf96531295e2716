"""Every error a user can meet: fields in, message and hint out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, ClassVar


class Kind(Enum):
    """Who has to act after the error; the value is the exit code of the command line."""

    USER = 2
    UNSUPPORTED = 3
    TRANSIENT = 4
    ENVIRONMENT = 5
    BUG = 70


def _rebuild_error(cls: type[TrickleError], values: dict[str, Any]) -> TrickleError:
    return cls(**values)


@dataclass(eq=False)
class TrickleError(Exception):
    """The base of all errors of this package."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    kind: ClassVar[Kind] = Kind.BUG

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def message(self) -> str:
        return "internal error"

    @property
    def hint(self) -> str:
        return "Please report this with the statement that caused it."

    @property
    def retryable(self) -> bool:
        return self.kind is Kind.TRANSIENT

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}\nHint: {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., TrickleError], tuple[Any, ...]]:
        return _rebuild_error, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


class AdvisedError(TrickleError):
    """An error whose way out is known where it is raised."""

    advice: str

    @property
    def hint(self) -> str:
        return self.advice


@dataclass(eq=False)
class WordedError(AdvisedError):
    """An error whose message and hint are given where it is raised."""

    detail: str
    advice: str

    @property
    def message(self) -> str:
        return self.detail


def shorten_text(text: str, most: int = 100) -> str:
    """A value as an error shows it: long ones lose their middle."""
    return text if len(text) <= most else f"{text[: most - 20]} … {text[-15:]}"


def suggest_closest(name: str, available: tuple[str, ...], noun: str) -> str:
    """A hint with the name that was probably meant, which is never the name that was written."""
    last = {a.lower().split(".")[-1]: a for a in available if a != name}
    if close := get_close_matches(name.split(".")[-1].lower(), list(last), n=1):
        return f'Did you mean "{last[close[0]]}"?'
    if not available:
        return f"There are no {noun} yet."
    return f"The {noun} are {', '.join(sorted(available)[:20])}."


@dataclass(eq=False)
class InternalError(TrickleError):
    detail: str

    @property
    def message(self) -> str:
        return f"internal error: {self.detail}"
