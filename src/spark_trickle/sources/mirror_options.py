"""OPTIONS of CREATE TABLE … FROM SOURCE -> values."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.errors import InvalidDefinitionError


def read_column_lists(options: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = ("skip", "as_text")
    if unknown := sorted(set(options) - set(known)):
        raise InvalidDefinitionError(
            f'there is no option "{unknown[0]}" of a mirror', f"The options are {' and '.join(known)}."
        )
    skip, as_text = (tuple(n.strip() for n in options.get(key, "").split(",") if n.strip()) for key in known)
    return skip, as_text
