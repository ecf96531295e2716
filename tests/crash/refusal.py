"""How every refusal must look: the right error in few plain words, and a warehouse as it was before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.session import Trickle
from tests.conftest import Location
from tests.crash.witness import files_on_disk

Errors = type[TrickleError] | tuple[type[TrickleError], ...]

LONGEST = 700
# Java, traces, Spark's column ids (id#12L), and the names that we give to columns and tables inside.
_INNER = re.compile(
    r"\tat |java\.|org\.apache|py4j|Traceback|JVM|SQLSTATE|_pyspark_|_trickle_\d|\w#\d+|\b_[onv]\d+\b"
    r"|\$n\d+_\d+|\bt\d+_(?:new|old|delta)\b|ansi\.enabled|RecursionError|OverflowError"
)


def check_refused(
    tr: Trickle, location: Location, action: Callable[[], Any], error: Errors, words: str = ""
) -> TrickleError:
    """The action fails with this error, whose text holds these words, and changes nothing."""
    before = tr.snapshot, files_on_disk(location)
    with pytest.raises(TrickleError) as caught:
        action()
    check_text(caught.value, error, words)
    assert (tr.snapshot, files_on_disk(location)) == before
    return caught.value


def check_text(found: TrickleError, error: Errors, words: str = "") -> None:
    text = str(found)
    assert isinstance(found, error), text
    for word in words.split():
        assert word in text, text
    assert len(text) <= LONGEST, text[:2000]
    assert not _INNER.search(text), text
    assert re.fullmatch(r"[A-Z_]+", found.code)
    assert found.message.strip()
    assert not found.message.endswith(".")
    assert re.search(r"[.?…]$", found.hint), found.hint
