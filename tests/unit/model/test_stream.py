"""What the catalog keeps of the sources of a stream table: the same text as ever, also of older definitions."""

from __future__ import annotations

import json

from spark_trickle.model.stream import ColumnUse, Mode, Source, Stream
from spark_trickle.model.stream_options import StreamOptions

STORED = [[3, [["a", 7, "INT"], ["b", 8, "CHAR(2)"]], ["main", "t"]], [4, []]]
SOURCES = (
    Source(3, (ColumnUse("a", 7, "INT"), ColumnUse("b", 8, "CHAR(2)")), ("main", "t")),
    Source(4, ()),  # its name was not kept then
)


def test_sources_are_kept_as_lists() -> None:
    stream = Stream("SELECT a FROM t", "main", Mode.AUTO, None, StreamOptions(), SOURCES, (), "[]")
    kept = json.loads(json.dumps(stream.to_json()))
    assert kept["sources"] == [STORED[0], [*STORED[1], None]]
    assert Stream.from_json(kept) == stream
    assert Stream.from_json({**kept, "sources": STORED}).sources == SOURCES
