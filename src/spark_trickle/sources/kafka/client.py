"""Brokers of Kafka -> the offsets of topics, and their records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from spark_trickle.errors import SourceSetupError, SourceUnavailableError
from spark_trickle.sources.kafka.offsets import Offsets
from spark_trickle.sources.kafka.options import KafkaOptions, Security, read_secret
from spark_trickle.sources.kafka.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

_AT_ONCE = 10_000  # records of one piece


class Client:
    """One connection to the brokers; it joins no group and notes no offsets there."""

    def __init__(self, options: KafkaOptions) -> None:
        self._kafka = import_library()
        self.timeout = options.timeout
        self._errors: list[str] = []
        self.properties = list_properties(options) | {
            "error_cb": lambda error: self._errors.append(error.str()),
            "log_level": 0,
        }
        self._made: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        if self._made is None:
            from confluent_kafka.admin import AdminClient

            self._made = self.attempt(lambda: AdminClient(self.properties))
        return self._made

    def list_topics(self) -> tuple[str, ...]:
        found = self.attempt(lambda: self.admin.list_topics(timeout=self.timeout))
        return tuple(sorted(name for name in found.topics if not name.startswith("__")))

    def find_ends(self, topics: Sequence[str], committed: bool = True) -> dict[str, Offsets]:
        """How far records reach, of all topics at once; a topic that is gone is left out."""
        partitions = self._describe(topics)
        found = self._find_offsets({t: n for t, (_, n) in partitions.items()}, "latest", committed)
        return {t: Offsets(partitions[t][0], offsets) for t, offsets in found.items()}

    def find_earliest(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        return self._find_offsets({topic: partitions}, "earliest").get(topic, {})

    def read_records(
        self, topic: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[list[Record]]:
        """The committed records between offsets, some at a time, in the order of each partition."""
        left = {p: end[p] for p in end if begin[p] < end[p]}
        if not left:
            return
        consumer = self._open_consumer()
        try:
            assigned = [self._kafka.TopicPartition(topic, p, begin[p]) for p in left]
            self.attempt(lambda: consumer.assign(assigned))
            yield from self._consume(consumer, topic, left)
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer, topic: str, left: dict[int, int]) -> Iterator[list[Record]]:
        """Transactions leave offsets without records: what comes later tells that they are passed."""
        latest = time.monotonic() + self.timeout
        while left:
            messages = self.attempt(lambda: _take_messages(consumer))
            records: list[Record] = []
            for message in messages:
                partition, offset = self._find_place(message)
                if partition not in left:
                    continue
                if message.error() is None and offset < left[partition]:
                    records.append(_make_record(message))
                    offset += 1
                if offset >= left[partition]:
                    del left[partition]
                    consumer.pause([self._kafka.TopicPartition(topic, partition)])
            if records:
                yield records
            if messages and (records or not left):
                latest = time.monotonic() + self.timeout
            elif time.monotonic() > latest:
                raise SourceUnavailableError(self.explain("the brokers send no records"))

    def _find_place(self, message: Message) -> tuple[int, int]:
        """The partition and offset of a record or of an end; any other error is one."""
        error = message.error()
        if error is not None and error.code() != self._kafka.KafkaError._PARTITION_EOF:
            raise SourceUnavailableError(self.explain(error.str()))
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        return partition, offset

    def _open_consumer(self) -> Consumer:
        own = {
            "group.id": "spark-trickle",  # the library wants one; it is never joined
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end is known, so there is nothing to wait for
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
        made: Consumer = self.attempt(lambda: self._kafka.Consumer(self.properties | own))
        return made

    def _describe(self, topics: Sequence[str]) -> dict[str, tuple[str, list[int]]]:
        """The id and the partitions of each topic that is there."""
        if not topics:
            return {}
        asked = self.attempt(
            lambda: self.admin.describe_topics(
                self._kafka.TopicCollection(list(topics)), request_timeout=self.timeout
            )
        )
        found = {}
        for name, future in asked.items():
            described = self.await_answer(future)
            if described is not None:
                found[name] = (str(described.topic_id), [p.id for p in described.partitions])
        return found

    def _find_offsets(
        self, partitions: Mapping[str, Sequence[int]], end: str, committed: bool = True
    ) -> dict[str, dict[int, int]]:
        from confluent_kafka import admin

        specs: Any = admin  # of which not all names have types
        spec = specs.OffsetSpec.latest() if end == "latest" else specs.OffsetSpec.earliest()
        asked = {self._kafka.TopicPartition(t, p): spec for t, numbers in partitions.items() for p in numbers}
        if not asked:
            return {}
        levels = self._kafka.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        futures = self.attempt(
            lambda: self.admin.list_offsets(asked, isolation_level=level, request_timeout=self.timeout)
        )
        found: dict[str, dict[int, int]] = {}
        gone = set[str]()
        for place, future in futures.items():
            answer = self.await_answer(future)
            if answer is None:  # it went meanwhile
                gone.add(place.topic)
            else:
                found.setdefault(place.topic, {})[place.partition] = answer.offset
        return {topic: offsets for topic, offsets in found.items() if topic not in gone}

    def await_answer(self, future: Future[Any]) -> Any:
        """The answer, or None if the topic is not there."""
        try:
            return future.result(self.timeout + 1)
        except self._kafka.KafkaException as error:
            reason = error.args[0]
            if reason.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise SourceUnavailableError(self.explain(reason.str())) from None
        except TimeoutError:
            raise SourceUnavailableError(self.explain("the brokers do not answer")) from None

    def attempt(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self._kafka.KafkaException as error:
            reason = error.args[0]
            text = reason.str() if isinstance(reason, self._kafka.KafkaError) else str(reason)
            raise SourceUnavailableError(self.explain(text)) from None

    def explain(self, text: str) -> str:
        """The last error that the library told beside is often the cause."""
        return f"{text} ({self._errors[-1]})" if self._errors and self._errors[-1] not in text else text


def _take_messages(consumer: Consumer) -> list[Message]:
    """What has arrived, without waiting for more of it."""
    first = consumer.consume(1, timeout=0.5)
    return [*first, *consumer.consume(_AT_ONCE, timeout=0)] if first else []


def import_library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise SourceSetupError(
            "a source of type kafka needs the package confluent-kafka",
            "Run pip install spark-trickle[kafka].",
        ) from None
    return confluent_kafka


def list_properties(options: KafkaOptions) -> dict[str, Any]:
    """What the library is told; secrets are in it: never print or keep them."""
    given: dict[str, Any] = {
        "bootstrap.servers": read_secret(options.servers, os.environ),
        "client.id": "spark-trickle",
        "security.protocol": options.security.value,
        "socket.timeout.ms": options.timeout * 1000,
        "ssl.ca.location": options.ssl_ca,
        "ssl.certificate.location": options.ssl_certificate,
        "ssl.key.location": options.ssl_key,
        "ssl.key.password": read_secret(options.ssl_key_password, os.environ),
    }
    if options.security in (Security.SASL_PLAINTEXT, Security.SASL_SSL):
        given |= {
            "sasl.mechanisms": options.sasl_mechanism,
            "sasl.username": options.sasl_username,
            "sasl.password": read_secret(options.sasl_password, os.environ),
        }
    return {name: value for name, value in given.items() if value != ""}


def _make_record(message: Message) -> Record:
    kind, moment = message.timestamp()
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Record(
        partition,
        offset,
        moment if kind else None,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )
