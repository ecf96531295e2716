"""Topics as a source: the version of a table is how far each partition was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import pyarrow as pa

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sources.interface import (
    Capabilities,
    Change,
    Lost,
    Records,
    RemoteColumn,
    RemoteTable,
    Version,
)
from spark_trickle.sources.kafka.client import Client
from spark_trickle.sources.kafka.decode import VALUE, choose_decoder
from spark_trickle.sources.kafka.offsets import (
    Gap,
    Offsets,
    RecordRange,
    choose_range,
    ends_before,
    find_gaps,
    find_loss,
    find_restart,
)
from spark_trickle.sources.kafka.options import (
    KafkaOptions,
    KeyType,
    OnLoss,
    RecordFormat,
    TopicOptions,
    check_options,
)
from spark_trickle.sources.kafka.records import (
    KEY,
    REJECT_COLUMNS,
    Record,
    RecordReader,
    list_columns,
)
from spark_trickle.sources.kafka.registry import Registry
from spark_trickle.spark.arriving import parse_columns


def open_kafka(name: str, options: KafkaOptions) -> KafkaSource:
    check_options(name, options)
    return KafkaSource(options)


@dataclass(frozen=True)
class Topic:
    """What was said of a topic when its table was made."""

    name: str
    format: RecordFormat
    options: TopicOptions

    @property
    def by_key(self) -> bool:
        return self.format is RecordFormat.DEBEZIUM

    @property
    def key(self) -> KeyType:
        return KeyType.STRING if self.by_key else self.options.key

    @property
    def columns(self) -> tuple[RemoteColumn, ...]:
        if self.format is RecordFormat.TEXT:
            if self.options.schema:
                raise InvalidDefinitionError(
                    f'a schema is given for the topic "{self.name}", whose values are text',
                    "Leave out the schema, or choose the format 'json'.",
                )
            return list_columns((RemoteColumn(VALUE, "string"),), self.key)
        if not self.options.schema:
            raise InvalidDefinitionError(
                f'nothing tells which columns the topic "{self.name}" has',
                "Give the columns: CREATE TABLE … OPTIONS (schema 'id BIGINT, name STRING').",
            )
        return list_columns(_parse_schema(self.options.schema), self.key)


@lru_cache(256)
def _parse_schema(text: str) -> tuple[RemoteColumn, ...]:
    return tuple(RemoteColumn(c.name, c.type) for c in parse_columns(text))


class KafkaSource:
    """It joins no group: how far we are, our own commits say."""

    capabilities: ClassVar = Capabilities(in_place=False, append_only=True, log=True, can_be_empty=True)

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._topics: dict[str, TopicOptions] = {}

    @cached_property
    def _client(self) -> Client:
        return Client(self._options)

    @cached_property
    def _registry(self) -> Registry | None:
        return Registry(self._options) if self._options.registry else None

    def configure(self, table: str, options: TopicOptions) -> None:
        self._topics[table] = options

    def discover(self) -> tuple[str, ...]:
        return self._client.list_topics()

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        return {name: ends.to_text() for name, ends in self._client.find_ends(tables).items()}

    def describe(self, table: str, at: Version) -> RemoteTable:
        topic = self._find_topic(table)
        return RemoteTable(table, topic.columns, (KEY,) if topic.by_key else (), REJECT_COLUMNS)

    def read(self, table: str, at: Version) -> Records:
        """Everything that is there, at once."""
        end = Offsets.from_text(at)
        earliest = self._client.find_earliest(table, sorted(end.next))
        whole = choose_range(Offsets(), end, earliest, sum(end.next.values()))
        return self._make_records(self._find_topic(table), end, whole, reads_all=True)

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        topic, before, end = self._find_topic(table), Offsets.from_text(after), Offsets.from_text(upto)
        earliest = self._client.find_earliest(table, sorted(end.next))
        reason = find_loss(before, end, earliest)
        if topic.by_key and not reason and before.topic and end.next.keys() - before.next.keys():
            reason = "the topic was given more partitions, so that keys may have moved"
        if reason and topic.by_key:
            return Lost(reason)
        start = find_restart(before, end) if reason else before
        batch = choose_range(start, end, earliest, self._options.most)
        gaps = find_gaps(before, earliest) if start.topic else ()
        records = self._make_records(topic, end, batch, gaps, reason if reason and not gaps else "")
        if reason and (topic.options.on_loss is OnLoss.STOP or ends_before(before, end)):
            return Lost(reason, records)
        return records

    def release(self, upto: Mapping[str, Version]) -> None:
        """Retention is the business of the brokers."""

    def close(self) -> None:
        """What was opened ends with the object."""

    def _find_topic(self, table: str) -> Topic:
        options = self._topics.get(table, TopicOptions())
        kind = RecordFormat(options.format) if options.format else self._options.format
        if kind is RecordFormat.AVRO and not self._options.registry:
            raise InvalidDefinitionError(
                f'the topic "{table}" has values in Avro, and its source no schema registry',
                "Attach the source with registry 'http://host:8081'.",
            )
        return Topic(table, kind, options)

    def _make_records(
        self,
        topic: Topic,
        end: Offsets,
        batch: RecordRange,
        gaps: Sequence[Gap] = (),
        loss: str = "",
        reads_all: bool = False,
    ) -> Records:
        decode = choose_decoder(topic.format, topic.key, self._registry)
        reader = RecordReader(topic.columns, topic.options.epoch, decode, reads_all)
        for gap in gaps:
            reader.note_gap(gap)
        if loss:
            reader.note_loss(loss)
        return Records(
            pieces=self._read_pieces(topic, batch, reader),
            rejects=reader.list_rejects,
            reached=Offsets(end.topic, batch.end).to_text(),
            size=batch.size,
            waiting=batch.waiting,
            by_key=topic.by_key,
        )

    def _read_pieces(self, topic: Topic, batch: RecordRange, reader: RecordReader) -> Iterator[pa.Table]:
        found = self._client.read_records(topic.name, batch.begin, batch.end)
        if topic.by_key:
            found = iter([order_by_time(record for piece in found for record in piece)])
        for records in found:
            yield reader.read_rows(records)


def order_by_time(records: Iterator[Record]) -> list[Record]:
    """The records of all partitions by their time, each partition in its own order."""
    latest: dict[int, int] = {}
    keyed = []
    for record in records:
        moment = max(record.timestamp or 0, latest.get(record.partition, 0))
        latest[record.partition] = moment
        keyed.append(((moment, record.partition, record.offset), record))
    return [record for _, record in sorted(keyed, key=lambda pair: pair[0])]
