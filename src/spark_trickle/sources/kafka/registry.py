"""Values in Avro and a schema registry -> values as JSON has them."""

from __future__ import annotations

import base64
import io
import json
import os
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from spark_trickle.errors import SourceSetupError, SourceUnavailableError
from spark_trickle.sources.kafka.options import KafkaOptions, read_secret
from spark_trickle.sources.kafka.values import MisfitError, Number

_MAGIC = 0


class Registry:
    """Schemas by their ids, each asked for once."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self.schemas: dict[int, Any] = {}
        try:
            import fastavro
        except ImportError:
            raise SourceSetupError(
                "values in Avro need the package fastavro", "Run pip install spark-trickle[kafka]."
            ) from None
        self._avro = fastavro

    def decode(self, data: bytes) -> Any:
        """A value that begins with the id of its schema."""
        if len(data) < 5 or data[0] != _MAGIC:
            raise MisfitError("it does not begin with the id of a schema")
        schema = self._find_schema(struct.unpack(">I", data[1:5])[0])
        rest = io.BytesIO(data[5:])
        try:
            found = self._avro.schemaless_reader(rest, schema, None)
        except Exception as error:  # bytes that are no Avro may lead to any error
            raise MisfitError(f"it does not fit its schema: {error or type(error).__name__}") from None
        if rest.read(1):
            raise MisfitError("it is longer than its schema says")
        return to_plain(found)

    def _find_schema(self, number: int) -> Any:
        if number not in self.schemas:
            text = self._ask(number)
            try:
                self.schemas[number] = self._avro.parse_schema(json.loads(text))
            except Exception as error:  # those of the library have no kind of their own
                raise MisfitError(f"schema {number} cannot be used: {error}") from None
        return self.schemas[number]

    def _ask(self, number: int) -> str:
        address = f"{self._options.registry.rstrip('/')}/schemas/ids/{number}"
        request = Request(address, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self._options.registry_user:
            password = read_secret(self._options.registry_password, os.environ)
            given = base64.b64encode(f"{self._options.registry_user}:{password}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {given}")
        try:
            with urlopen(request, timeout=self._options.timeout) as answer:
                found = json.load(answer)
        except HTTPError as error:
            if error.code == 404:
                raise MisfitError(f"the registry knows no schema {number}") from None
            raise SourceUnavailableError(f"the schema registry answers {error.code} {error.reason}") from None
        except (URLError, OSError, ValueError) as error:
            raise SourceUnavailableError(f"the schema registry cannot be reached: {error}") from None
        if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
            raise MisfitError(f"schema {number} is not a self-contained Avro schema")
        return str(found["schema"])


def to_plain(value: Any) -> Any:
    """What Avro knows and JSON does not, as texts that mean the same."""
    match value:
        case None | bool() | str():
            return value
        case int() | Decimal():
            return Number(value)
        case float():
            return Number(repr(value)) if value - value == 0 else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {k: to_plain(v) for k, v in value.items()}
        case list() | tuple():
            return [to_plain(v) for v in value]
    return str(value)
