"""What became of a row <-> the records that say it, in Debezium's envelope or as the row alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, NamedTuple

from spark_trickle.model.table import Table
from spark_trickle.sources.kafka.records import Record
from spark_trickle.sources.kafka.values import MisfitError, parse_json, write_json
from spark_trickle.targets.kafka.changes import KeyChange
from spark_trickle.targets.kafka.options import TopicFormat


class Message(NamedTuple):
    """A record that is to be written."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Provenance:
    """What the records of one transaction have in common; `mark` is the time of the snapshot."""

    warehouse: str
    table: Table
    snapshot: int
    mark: str
    written: datetime


Tell = Callable[[KeyChange], Iterator[Message]]
Hear = Callable[[Record], KeyChange]


def choose_teller(format: TopicFormat, provenance: Provenance, new: str, tombstones: bool) -> Tell:
    """How a change becomes records; `new` is the `op` of rows that come."""
    match format:
        case TopicFormat.DEBEZIUM:
            return _make_envelope_teller(provenance, new, tombstones)
        case TopicFormat.UPSERT:
            return _tell_row


def _tell_row(change: KeyChange) -> Iterator[Message]:
    yield Message(_encode_key(change), None if change.after is None else change.after.encode())


def _encode_key(change: KeyChange) -> bytes:
    """The key that somebody else wrote may be no text."""
    return change.key.encode(errors="surrogateescape")


def _make_envelope_teller(provenance: Provenance, new: str, tombstones: bool) -> Tell:
    written, source = _count_milliseconds(provenance.written), _describe_provenance(provenance, new)
    end = f'"ts_ms":{written},"source":{source}}}'

    def tell(change: KeyChange) -> Iterator[Message]:
        key, before, after = _encode_key(change), change.before or "null", change.after or "null"
        op = "d" if change.after is None else new if change.before is None else "u"
        yield Message(key, f'{{"before":{before},"after":{after},"op":"{op}",{end}'.encode())
        if change.after is None and tombstones:
            yield Message(key, None)

    return tell


def _describe_provenance(provenance: Provenance, new: str) -> str:
    """The fields that all connectors of Debezium have, and the number of the snapshot."""
    told = {
        "version": version("spark-trickle"),
        "connector": "spark-trickle",
        "name": provenance.warehouse,
        "ts_ms": _count_milliseconds(datetime.fromisoformat(provenance.mark)),
        "snapshot": "true" if new == "r" else "false",
        "db": provenance.warehouse,
        "schema": provenance.table.schema,
        "table": provenance.table.name,
        "snapshot_id": provenance.snapshot,
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _count_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# --- the other way ---------------------------------------------------------------------------------


def choose_hearer(format: TopicFormat) -> Hear:
    """What a record says; one that is not of this format is a `MisfitError`."""
    match format:
        case TopicFormat.DEBEZIUM:
            return _hear_envelope
        case TopicFormat.UPSERT:
            return _hear_row


def _hear_row(record: Record) -> KeyChange:
    value = None if record.value is None else parse_json(record.value)
    return KeyChange(_read_key(record), None, _show_row(value))


def _hear_envelope(record: Record) -> KeyChange:
    value = {"op": "d"} if record.value is None else parse_json(record.value)
    if not isinstance(value, dict) or value.get("op") not in ("c", "r", "u", "d"):
        raise MisfitError("it is no change of a row")
    return KeyChange(_read_key(record), _show_row(value.get("before")), _show_row(value.get("after")))


def _read_key(record: Record) -> str:
    try:
        return (record.key or b"").decode()
    except UnicodeDecodeError:
        raise MisfitError("its key is not text in UTF-8") from None


def _show_row(value: Any) -> str | None:
    """As it was written, if it was written by us."""
    return None if value is None else write_json(value, sort=False)
