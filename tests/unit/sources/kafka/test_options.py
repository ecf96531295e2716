"""OPTIONS of a source of type kafka: what is read, what is refused, and that no secret is kept."""

from __future__ import annotations

import sys

import pytest

from spark_trickle.errors import SourceSetupError, TrickleError
from spark_trickle.sources.kafka.client import Client, list_properties
from spark_trickle.sources.kafka.options import (
    KafkaOptions,
    RecordFormat,
    TopicOptions,
    check_options,
    read_secret,
)
from spark_trickle.sources.kafka.registry import Registry
from spark_trickle.sources.kafka.source import Topic
from spark_trickle.sources.options import parse_options

SERVERS = {"servers": "host:9092"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"servers": ""}, "needs its brokers"),
        ({"max_records": "0"}, '"0" is not a value for the option "max_records"'),
        ({"max_records": "many"}, '"many" is not a value'),
        ({"timeout_seconds": "-1"}, '"-1" is not a value'),
        ({"format": "xml"}, '"xml" is not a value for the option "format"'),
        ({"format": "avro"}, "no schema registry"),
        ({"sasl_password": "hunter2"}, "sasl_password contains a password"),
        ({"ssl_key_password": "hunter2"}, "ssl_key_password contains a password"),
        ({"registry_password": "hunter2"}, "registry_password contains a password"),
        ({"registry": "http://user:hunter2@host"}, "contains a password"),
    ],
)
def test_what_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(TrickleError, match=words) as caught:
        check_options("bus", parse_options(KafkaOptions, {**SERVERS, **given}))
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"security": "sasl_ssl", "sasl_username": "me", "sasl_password": "env:BUS_PASSWORD"}
    options = parse_options(KafkaOptions, {**SERVERS, **given})
    check_options("bus", options)
    monkeypatch.delenv("BUS_PASSWORD", raising=False)
    with pytest.raises(TrickleError, match='"BUS_PASSWORD" is not set'):
        list_properties(options)
    monkeypatch.setenv("BUS_PASSWORD", "hunter2")
    found = list_properties(options)
    assert (found["sasl.password"], found["security.protocol"]) == ("hunter2", "sasl_ssl")
    assert "ssl.key.password" not in found
    assert read_secret("plain", {}) == "plain"


@pytest.mark.parametrize(
    ("format", "schema", "words"),
    [("json", "", "nothing tells which columns"), ("text", "id INT", "whose values are text")],
)
def test_columns_of_a_topic(format: str, schema: str, words: str) -> None:
    with pytest.raises(TrickleError, match=words):
        _ = Topic("t", RecordFormat(format), TopicOptions(schema=schema)).columns
    text = Topic("t", RecordFormat.TEXT, TopicOptions()).columns
    assert [c.name for c in text] == ["value", "_partition", "_offset", "_timestamp", "_key"]


@pytest.mark.parametrize("library", ["confluent_kafka", "fastavro"])
def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    options = KafkaOptions("host:9092", registry="http://registry")
    with pytest.raises(SourceSetupError, match=r"needs? the package") as caught:
        Client(options) if library == "confluent_kafka" else Registry(options)
    assert caught.value.hint == "Run pip install spark-trickle[kafka]."
