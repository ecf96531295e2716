"""Errors -> errors that say where in the statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, UnsupportedError

_PLACED = (ColumnNotFoundError, InvalidDefinitionError, UnsupportedError)


@contextmanager
def place_errors(node: exp.Expr) -> Iterator[None]:
    """An error inside that has no place yet gets that of an expression."""
    try:
        yield
    except _PLACED as error:
        place = place_of(node)
        if error.place[0] or not place[0]:
            raise
        raise replace(error, place=place) from None


@contextmanager
def drop_places() -> Iterator[None]:
    """An error inside is in another text, such as that of a view: its place means nothing here."""
    try:
        yield
    except _PLACED as error:
        raise replace(error, place=(0, 0)) from None


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Line and column where an expression begins; zeros if that is not known."""
    found = [n.meta for n in node.walk() if "line" in n.meta]
    if not found:
        return 0, 0
    first = min(found, key=lambda meta: int(meta["start"]))
    return int(first["line"]), int(first["col"]) - int(first["end"]) + int(first["start"])
