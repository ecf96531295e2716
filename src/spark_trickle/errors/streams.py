"""Errors of stream tables: what they refuse, and what stops them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spark_trickle.errors.base import AdvisedError, Kind, TrickleError


@dataclass(eq=False)
class ReadOnlyTableError(TrickleError):
    table: str
    mirrors: str | None = None  # the table of a source that it follows
    code: ClassVar[str] = "READ_ONLY_TABLE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        what = f'a mirror of "{self.mirrors}"' if self.mirrors else "a stream table"
        return f'"{self.table}" is {what} and cannot be changed directly'

    @property
    def hint(self) -> str:
        if self.mirrors:
            return "Change the rows in the source, then run SYNC SOURCE."
        return "Change its source tables, or its query with ALTER STREAM TABLE … AS SELECT …."


@dataclass(eq=False)
class SourceLostError(TrickleError):
    """A stream table cannot go on because of what happened to a table it reads."""

    table: str
    detail: str
    code: ClassVar[str] = "SOURCE_LOST"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the source "{self.table}" {self.detail}'

    @property
    def hint(self) -> str:
        return "Change the query with ALTER STREAM TABLE … AS SELECT …, or drop the stream table."


@dataclass(eq=False)
class CircularError(TrickleError):
    path: tuple[str, ...]
    code: ClassVar[str] = "CIRCULAR"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f"a stream table would read itself: {' -> '.join(self.path)}"

    @property
    def hint(self) -> str:
        return (
            "Let one of them read a table instead. "
            "If they can only add rows to each other, SET trickle.allow_circular = true."
        )


@dataclass(eq=False)
class CircleRefusedError(AdvisedError):
    """A circle of stream tables that has no least fixpoint, or none that could be kept."""

    table: str
    detail: str
    advice: str
    code: ClassVar[str] = "CIRCLE_REFUSED"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'"{self.table}" cannot be part of a circle: {self.detail}'


@dataclass(eq=False)
class NoFixpointError(TrickleError):
    tables: tuple[str, ...]
    limit: int
    code: ClassVar[str] = "NO_FIXPOINT"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        names = ", ".join(f'"{t}"' for t in self.tables)
        return f"the circle of stream tables {names} still changes after {self.limit} rounds"

    @property
    def hint(self) -> str:
        return (
            "Remove expressions that always produce new values, such as x + 1, "
            "or raise trickle.max_fixpoint_iterations."
        )


@dataclass(eq=False)
class FuseBlownError(TrickleError):
    table: str
    rows: int
    ceiling: int
    code: ClassVar[str] = "FUSE_BLOWN"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return (
            f'the fuse of "{self.table}" has blown: {self.rows} rows changed, but the limit is {self.ceiling}'
        )

    @property
    def hint(self) -> str:
        return "Check what changed, then call reset_fuse() to apply the change or to recompute everything."


@dataclass(eq=False)
class RecursionTooDeepError(TrickleError):
    table: str
    limit: int
    code: ClassVar[str] = "RECURSION_TOO_DEEP"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        return f'the recursion in "{self.table}" does not end within {self.limit} steps'

    @property
    def hint(self) -> str:
        return "Use UNION instead of UNION ALL where rows form a cycle, or raise trickle.max_recursion_depth."


@dataclass(eq=False)
class InUseError(TrickleError):
    """A change to a table that stream tables depend on."""

    table: str
    change: str
    users: tuple[str, ...]
    code: ClassVar[str] = "IN_USE"
    kind: ClassVar[Kind] = Kind.USER

    @property
    def message(self) -> str:
        names = ", ".join(f'"{u}"' for u in self.users)
        return f'"{self.table}" cannot be {self.change} because stream tables depend on it: {names}'

    @property
    def hint(self) -> str:
        return "Drop these stream tables first, or SET trickle.block_source_ddl = false."


@dataclass(eq=False)
class SeveralFailedError(TrickleError):
    """Several parts failed, each for its own reason; everything that did not depend on them was done."""

    what: str
    messages: tuple[str, ...]
    hints: tuple[str, ...]
    code: ClassVar[str] = "SEVERAL_FAILED"
    kind: ClassVar[Kind] = Kind.ENVIRONMENT

    @property
    def message(self) -> str:
        return f"{len(self.messages)} {self.what} failed: {'; '.join(self.messages)}"

    @property
    def hint(self) -> str:
        return " ".join(self.hints)


def raise_failures(what: str, failures: Sequence[TrickleError]) -> None:
    """Raise what failed, if anything did, once all the rest is done."""
    if len(failures) > 1:
        hints = tuple(dict.fromkeys(f.hint for f in failures))
        raise SeveralFailedError(what, tuple(f.message for f in failures), hints) from failures[0]
    if failures:
        raise failures[0]
