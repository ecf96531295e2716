"""Records -> rows and rejects: formats, keys, envelopes of Debezium, and the order of partitions."""

from __future__ import annotations

import io
import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fastavro
import pytest

from spark_trickle.errors import ResyncNeededError, SourceUnavailableError
from spark_trickle.model.table import WEIGHT
from spark_trickle.sources.interface import RemoteColumn
from spark_trickle.sources.kafka.decode import choose_decoder
from spark_trickle.sources.kafka.options import EpochUnit, KafkaOptions, KeyType, RecordFormat
from spark_trickle.sources.kafka.records import Record, RecordReader, list_columns
from spark_trickle.sources.kafka.registry import Registry
from spark_trickle.sources.kafka.source import order_by_time

COLUMNS = (RemoteColumn("id", "long"), RemoteColumn("name", "string"))
WRAPPER = {"type": "struct"}


def read(
    kind: RecordFormat,
    *records: tuple[bytes | None, bytes | None],
    registry: Any = None,
    reads_all: bool = False,
) -> Any:
    """Rows as (id, name, key, weight), and rejects as (offset, reason)."""
    decode = choose_decoder(kind, KeyType.STRING, registry)
    columns = list_columns(COLUMNS, KeyType.STRING)
    reader = RecordReader(columns, EpochUnit.MILLISECONDS, decode, reads_all)
    made = [Record(0, n, 1000 + n, key, value) for n, (key, value) in enumerate(records)]
    rows = reader.read_rows(made).to_pylist()
    assert all(r["_timestamp"] == datetime.fromtimestamp(1 + r["_offset"] / 1000, UTC) for r in rows)
    found = [(r["id"], r["name"], r["_key"], r[WEIGHT]) for r in rows]
    rejects = reader.list_rejects().to_pylist()
    return found, [(r["offset"], r["reason"]) for r in rejects]


def test_json() -> None:
    rows, rejects = read(
        RecordFormat.JSON,
        (b"k", b'{"id": 1, "name": "x", "more": 0}'),
        (None, b"{}"),
        (b"gone", None),
        (None, b"null"),
        (None, b'{"id": []}'),
    )
    assert rows == [(1, "x", "k", 1), (None, None, None, 1), (None, None, "gone", 1)]
    assert rejects == [
        (3, "the value is not an object with fields"),
        (4, '"id" is [], which is no BIGINT'),
    ]


def test_a_time_beyond_all_years() -> None:
    decode = choose_decoder(RecordFormat.JSON, KeyType.STRING, None)
    reader = RecordReader(list_columns(COLUMNS, KeyType.STRING), EpochUnit.MILLISECONDS, decode)
    rows = reader.read_rows([Record(0, 0, 2**62, None, b"{}"), Record(0, 1, None, None, b"{}")])
    assert rows.column("_timestamp").to_pylist() == [None]
    (found,) = reader.list_rejects().to_pylist()
    assert (found["timestamp"], "milliseconds" in found["reason"]) == (None, True)


def change(op: str, after: Any, wrapped: bool = False) -> bytes:
    payload = {"before": None, "after": after, "op": op, "ts_ms": 1}
    return json.dumps({"schema": WRAPPER, "payload": payload} if wrapped else payload).encode()


@pytest.mark.parametrize("wrapped", [False, True])
def test_changes_of_debezium(wrapped: bool) -> None:
    key = json.dumps({"schema": WRAPPER, "payload": {"id": 1}} if wrapped else {"id": 1}).encode()
    row = {"id": 1, "name": "x"}
    changes = [change(op, row, wrapped) for op in "cru"]
    rows, rejects = read(
        RecordFormat.DEBEZIUM, *((key, c) for c in (*changes, change("d", None, wrapped), None))
    )
    assert rows == [(1, "x", '{"id":1}', 1)] * 3 + [(None, None, '{"id":1}', -1)] * 2
    assert not rejects


def test_what_is_no_change_of_debezium() -> None:
    rows, rejects = read(
        RecordFormat.DEBEZIUM,
        (b"plain", change("c", {"id": 1})),
        (None, change("c", {"id": 1})),
        (b"k", b'{"id": 1}'),
        (b"k", change("u", None)),
        (b"k", change("m", {"id": 1})),
        (b"k", b"17"),
        (b"k", change("c", {"id": "x"})),
        (None, None),
    )
    assert rows == [(1, None, "plain", 1)]
    assert [offset for offset, _ in rejects] == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(ResyncNeededError, match="TRUNCATE"):
        read(RecordFormat.DEBEZIUM, (None, change("t", None)))


def test_a_truncate_deletes_what_came_before_if_all_is_read() -> None:
    rows, rejects = read(
        RecordFormat.DEBEZIUM,
        (b"a", change("c", {"id": 1})),
        (b"k", b"17"),
        (None, change("t", None)),
        (b"b", change("c", {"id": 2})),
        reads_all=True,
    )
    assert rows == [(2, None, "b", 1)]
    assert [offset for offset, _ in rejects] == [1]


def test_partitions_are_ordered_by_time_and_each_by_itself() -> None:
    made = [(0, 0, 50), (0, 1, 10), (0, 2, None), (1, 0, 20), (1, 1, 60), (2, 0, 50)]
    records = [Record(p, o, t, None, None) for p, o, t in made]
    assert [r[:2] for r in order_by_time(iter(records))] == [(1, 0), (0, 0), (0, 1), (0, 2), (2, 0), (1, 1)]
    shuffled = [records[n] for n in (3, 0, 1, 4, 2, 5)]
    assert order_by_time(iter(shuffled)) == order_by_time(iter(records))


SCHEMA = {
    "type": "record",
    "name": "click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
    ],
}


class Answers(BaseHTTPRequestHandler):
    """A server that answers as a registry does, to whoever knows the password."""

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/schemas/ids/"))
        allowed = self.headers["Authorization"] == f"Basic {b64encode(b'me:hunter2').decode()}"
        schemas = {1: json.dumps(SCHEMA), 2: '{"type": "nonsense"}'}
        status = 401 if not allowed else 200 if number in schemas else 500 if number == 5 else 404
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write(json.dumps({"schema": schemas[number]}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Quietly."""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaOptions]:
    """The options of a source whose registry asks for a password."""
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")
    with ThreadingHTTPServer(("localhost", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield KafkaOptions(
            registry=f"http://localhost:{server.server_port}/",
            registry_user="me",
            registry_password="env:REGISTRY_PASSWORD",
            timeout_seconds="5",
        )
        server.shutdown()
        thread.join()


def encode(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, number) + out.getvalue()


def test_avro(registry: KafkaOptions) -> None:
    good = encode(1, SCHEMA, {"id": 2**62 + 1, "name": "ü"})
    rows, rejects = read(
        RecordFormat.AVRO,
        (b"k", good),
        (b"k", good[:-1]),
        (b"k", good + b"x"),
        (b"k", b"{}"),
        (b"k", None),
        (b"k", encode(2, SCHEMA, {"id": 1, "name": None})),
        (b"k", encode(404, SCHEMA, {"id": 1, "name": None})),
        (b"k", struct.pack(">bI", 0, 1) + b"\xff" * 30),
        registry=Registry(registry),
    )
    assert rows == [(2**62 + 1, "ü", "k", 1), (None, None, "k", 1)]
    assert [offset for offset, _ in rejects] == [1, 2, 3, 5, 6, 7]
    assert rejects[4][1] == "the registry knows no schema 404"


def test_changes_of_debezium_in_avro(registry: KafkaOptions) -> None:
    key = {"type": "record", "name": "k", "fields": [{"name": "id", "type": "long"}]}
    known = Registry(registry)
    known.schemas[8] = fastavro.parse_schema(key)
    fields = [{"name": "after", "type": ["null", SCHEMA]}, {"name": "op", "type": "string"}]
    envelope = {"type": "record", "name": "e", "fields": fields}
    known.schemas[9] = fastavro.parse_schema(envelope)
    named = encode(8, key, {"id": 1})
    rows, rejects = read(
        RecordFormat.DEBEZIUM,
        (named, encode(9, envelope, {"op": "c", "after": {"id": 1, "name": "x"}})),
        (named, encode(9, envelope, {"op": "d", "after": None})),
        (named, None),
        registry=known,
    )
    assert rows == [(1, "x", '{"id":1}', 1), (None, None, '{"id":1}', -1), (None, None, '{"id":1}', -1)]
    assert not rejects


def test_a_registry_that_does_not_answer(registry: KafkaOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is rejected for what is not the fault of a record."""
    with pytest.raises(SourceUnavailableError, match="500"):
        Registry(registry).decode(encode(5, SCHEMA, {"id": 1, "name": None}))
    monkeypatch.setenv("REGISTRY_PASSWORD", "wrong horse")
    with pytest.raises(SourceUnavailableError, match="401") as caught:
        Registry(registry).decode(encode(1, SCHEMA, {"id": 1, "name": None}))
    assert "wrong horse" not in str(caught.value)
    with pytest.raises(SourceUnavailableError, match="registry cannot be reached"):
        Registry(KafkaOptions(registry="http://localhost:1")).decode(
            encode(1, SCHEMA, {"id": 1, "name": None})
        )


def test_values_of_avro_stay_exact() -> None:
    from spark_trickle.sources.kafka.registry import to_plain
    from spark_trickle.sources.kafka.values import write_json

    value = {
        "d": Decimal("1.10"),
        "n": 2**63 - 1,
        "f": 0.1,
        "nan": float("nan"),
        "b": b"hi",
        "at": datetime(2024, 2, 29, 12, 0, 0, 5, UTC),
        "day": date(2024, 2, 29),
        "list": [True, None],
    }
    assert json.loads(write_json(to_plain(value)), parse_float=str) == {
        "d": "1.10",
        "n": 2**63 - 1,
        "f": "0.1",
        "nan": "nan",
        "b": "aGk=",
        "at": "2024-02-29T12:00:00.000005+00:00",
        "day": "2024-02-29",
        "list": [True, None],
    }
