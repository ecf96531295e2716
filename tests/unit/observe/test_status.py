"""The mode that a stream table is really refreshed in."""

from __future__ import annotations

import pytest

from spark_trickle.model.stream import Action, Mode, Stream
from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.observe.status import effective_mode


@pytest.mark.parametrize(
    ("mode", "moments", "last", "expected"),
    [
        (Mode.AUTO, "", None, None),
        (Mode.AUTO, "", Action.DIFFERENTIAL, "DIFFERENTIAL"),
        (Mode.AUTO, "", Action.FULL, "FULL"),
        (Mode.AUTO, "", Action.REINITIALIZE, "FULL"),
        (Mode.AUTO, "now", None, "FULL"),
        (Mode.FULL, "", None, "FULL"),
        (Mode.DIFFERENTIAL, "", None, "DIFFERENTIAL"),
        (Mode.DIFFERENTIAL, "", Action.FULL, "FULL"),  # the change alone could not be computed
        (Mode.IMMEDIATE, "", Action.DIFFERENTIAL, "IMMEDIATE"),
    ],
)
def test_the_mode_in_effect(mode: Mode, moments: str, last: str | None, expected: str | None) -> None:
    stream = Stream("", "main", mode, None, StreamOptions(), (), (), "", tuple(moments.split()))
    assert effective_mode(stream, last) == expected
