"""A record in one of the formats -> its key, and the fields of its value."""

from __future__ import annotations

from typing import Any

from spark_trickle.sources.kafka.options import KeyType, RecordFormat
from spark_trickle.sources.kafka.records import Decode, Image, Record, TruncatedError
from spark_trickle.sources.kafka.registry import Registry
from spark_trickle.sources.kafka.values import MisfitError, parse_json, write_json

VALUE = "value"  # the column of a topic whose values are text


def choose_decoder(kind: RecordFormat, key: KeyType, registry: Registry | None) -> Decode:
    def read_key(record: Record) -> Any:
        return record.key if key is KeyType.BINARY else _read_text(record.key, "the key")

    def decode_text(record: Record) -> Image:
        return Image({VALUE: _read_text(record.value, "the value")}, read_key(record))

    def decode_json(record: Record) -> Image:
        return Image(
            _require_fields({} if record.value is None else parse_json(record.value)), read_key(record)
        )

    def decode_avro(record: Record) -> Image:
        assert registry is not None
        return Image(
            _require_fields({} if record.value is None else registry.decode(record.value)), read_key(record)
        )

    def decode_debezium(record: Record) -> Image:
        if registry is None:
            return _read_envelope(record, _parse_key(record.key), record.value and parse_json(record.value))
        named = None if record.key is None else registry.decode(record.key)
        return _read_envelope(record, named, record.value and registry.decode(record.value))

    match kind:
        case RecordFormat.JSON:
            return decode_json
        case RecordFormat.TEXT:
            return decode_text
        case RecordFormat.AVRO:
            return decode_avro
        case RecordFormat.DEBEZIUM:
            return decode_debezium


def _read_text(data: bytes | None, what: str) -> str | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise MisfitError(f"{what} is not text in UTF-8") from None


def _require_fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MisfitError("the value is not an object with fields")
    return value


# --- Debezium --------------------------------------------------------------------------------------


def _parse_key(data: bytes | None) -> Any:
    """A key in JSON, or else as the text that it is."""
    if data is None:
        return None
    try:
        return parse_json(data)
    except MisfitError:
        return _read_text(data, "the key")


def _unwrap(value: Any) -> Any:
    """Converters may put the schema of every value beside it."""
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _read_envelope(record: Record, key: Any, value: Any) -> Image:
    """The row as it is after a change, under one text for equal keys."""
    payload = _unwrap(value)
    if isinstance(payload, dict) and payload.get("op") == "t":
        raise TruncatedError(
            f"a TRUNCATE was recorded at offset {record.offset} of partition {record.partition}"
        )
    named = _unwrap(key)
    if named is None:
        raise MisfitError("it has no key, so its row cannot be identified")
    name = named if isinstance(named, str) else write_json(named)
    if payload is None:  # a tombstone
        return Image(None, name)
    if not isinstance(payload, dict) or "op" not in payload:
        raise MisfitError('it is not a change of Debezium: it has no "op"')
    match payload["op"]:
        case "d":
            return Image(None, name)
        case "c" | "r" | "u":
            after = payload.get("after")
            if not isinstance(after, dict):
                raise MisfitError('it has no row in "after"')
            return Image(after, name)
    raise MisfitError(f'its "op" is {write_json(payload["op"])}, which is not a change of a row')
