"""Options of stream tables: texts that users write <-> values."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.stream import Mode, Stream
from spark_trickle.model.stream_options import StreamOptions, Tier, read_stream_options
from spark_trickle.settings import LARGEST_NUMBER

READ = [
    ({}, StreamOptions()),
    ({"tier": "FROZEN"}, StreamOptions(tier=Tier.FROZEN)),
    ({"initialize": "False", "append_only": "TRUE"}, StreamOptions(initialize=False, append_only=True)),
    ({"fuse_ceiling": "0"}, StreamOptions(fuse_ceiling=0)),
    ({"fuse_ceiling": "9" * 400}, StreamOptions(fuse_ceiling=LARGEST_NUMBER)),
    ({"exact_floats": "true"}, StreamOptions(exact_floats=True)),
]


NO_NUMBERS = [
    "-1",
    "+1",
    "",
    " 1",
    "1 ",
    "\u00a01",
    "²",
    "٣",
    "१",
    "１２",
    "½",
    "Ⅷ",
    "1_000",
    "1.0",
    "1e3",
    "0x10",
    "9" * 5000,
]


@pytest.mark.parametrize(("texts", "options"), READ)
def test_texts_become_values_and_texts_again(texts: dict[str, str], options: StreamOptions) -> None:
    assert read_stream_options(texts) == options
    assert read_stream_options(options.to_texts()) == options


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"teir": "hot"}, 'there is no option "teir"'),
        ({"tier": "lukewarm"}, 'there is no tier "lukewarm"'),
        *[({"fuse_ceiling": text}, "is not a number") for text in NO_NUMBERS],
        ({"append_only": "1"}, "neither true nor false"),
    ],
)
def test_what_is_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=message):
        read_stream_options(texts)


def test_an_older_definition_is_read() -> None:
    """Functions of the clock were kept among the options."""
    stream = Stream("SELECT now()", "main", Mode.AUTO, None, StreamOptions(tier=Tier.COLD), (), (), "[]")
    older = {**stream.to_json(), "options": {"tier": "COLD", "initialize": "true", "moments": "now today"}}
    del older["moments"]
    read = Stream.from_json(older)
    assert (read.options, read.moments) == (StreamOptions(tier=Tier.COLD), ("now", "today"))
    assert Stream.from_json(read.to_json()) == read
