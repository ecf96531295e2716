"""OPTIONS of CREATE TABLE … FROM SOURCE -> values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_trickle.errors import InvalidDefinitionError

_LISTS = ("skip", "as_text")


def read_column_lists(
    options: Mapping[str, str], more: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns to leave out, and those to take as text; `more` are the options that others read."""
    if unknown := sorted(set(options) - {*_LISTS, *more}):
        known = (*_LISTS, *more)
        raise InvalidDefinitionError(
            f'there is no option "{unknown[0]}" of a mirror',
            f"The options are {', '.join(known[:-1])} and {known[-1]}.",
        )
    skip, as_text = (tuple(n.strip() for n in options.get(key, "").split(",") if n.strip()) for key in _LISTS)
    return skip, as_text
