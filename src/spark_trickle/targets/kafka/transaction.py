"""Messages -> records of one transaction, which all readers of committed records see at once, or never.

There is one transactional id for each stream table, so whoever begins last locks out everybody before: a
process that was believed dead can neither write nor commit any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from spark_trickle.errors import (
    InvalidDefinitionError,
    SourceBusyError,
    SourceUnavailableError,
    TargetRefusedError,
    TrickleError,
)
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.sources.kafka.client import Client, import_library
from spark_trickle.targets.kafka.envelope import Message

if TYPE_CHECKING:
    from confluent_kafka import Message as Receipt
    from confluent_kafka import Producer

T = TypeVar("T")

_QUEUE_KILOBYTES = 65_536  # of records that are on their way
_SERVE_EVERY = 1_000  # records between two looks at what arrived


@dataclass
class Delivered:
    """How many records of one topic arrived, and the offset of the last, for each partition."""

    count: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def note(self, partition: int, offset: int) -> None:
        self.count[partition] = self.count.get(partition, 0) + 1
        self.last[partition] = max(self.last.get(partition, -1), offset)


class TopicWriter:
    """The only process that may write a topic, until another one says so too."""

    def __init__(self, client: Client, topic: str, transactional_id: str, longest: int) -> None:
        self._kafka = import_library()
        self._client, self._topic = client, topic
        self._failures: list[Any] = []
        self._delivered = Delivered()
        self._sent, self._can_retry = 0, False
        self._moved = time.monotonic()  # when something last arrived
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": longest * 1000,
            "partitioner": "murmur2_random",  # as clients in Java choose
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.kbytes": _QUEUE_KILOBYTES,
            "message.max.bytes": 1_000_000_000,  # brokers and topics have limits of their own
        }
        self._producer: Producer = self._attempt(lambda: self._kafka.Producer(client.properties | own))
        self._attempt(lambda: self._producer.init_transactions(client.timeout))

    @contextmanager
    def open_transaction(self) -> Iterator[Delivered]:
        """What is sent inside is committed at the end, or nothing of it."""
        self._attempt(self._producer.begin_transaction)
        self._delivered, self._moved = Delivered(), time.monotonic()
        try:
            yield self._delivered
            self.flush()
            crash_point("before_target_commit")
            self._commit()
        except BaseException:
            with suppress(self._kafka.KafkaException, SystemError):
                self._producer.purge()
                self._producer.abort_transaction(self._client.timeout)
            raise
        crash_point("after_target_commit")

    def send(self, topic: str, message: Message) -> None:
        """Give a record to the library, which holds a bounded number of them."""
        while True:
            try:
                self._producer.produce(topic, message.value, message.key, on_delivery=self._note_delivery)
                break
            except BufferError:
                self._attempt(lambda: self._producer.poll(0.5))
                self._require_progress()
            except self._kafka.KafkaException as error:
                raise self._explain(error.args[0]) from None
        self._sent += 1
        if self._sent % _SERVE_EVERY == 0:
            self._attempt(lambda: self._producer.poll(0))
            self._require_progress()

    def flush(self) -> None:
        """Wait until all that was sent has arrived."""
        while self._attempt(lambda: self._producer.flush(0.5)):
            self._require_progress()
        self._require_progress()

    def _note_delivery(self, error: Any, message: Receipt) -> None:
        self._moved = time.monotonic()
        if error is not None:
            self._failures.append(error)
        elif message.topic() == self._topic:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._delivered.note(partition, offset)

    def _require_progress(self) -> None:
        if self._failures:
            raise self._explain(self._failures[0])
        if len(self._producer) and time.monotonic() > self._moved + self._client.timeout:
            raise SourceUnavailableError(self._client.explain("the brokers take no records"))

    def _commit(self) -> None:
        """A commit that was not answered may have happened: the next push reads the ledger."""
        latest = time.monotonic() + self._client.timeout
        while True:
            try:
                self._attempt(lambda: self._producer.commit_transaction(self._client.timeout))
                return
            except SourceUnavailableError:
                if not self._can_retry or time.monotonic() > latest:
                    raise

    def _attempt(self, action: Callable[[], T]) -> T:
        """The library raises a fatal error between callbacks, and those after it then fail because of it."""
        try:
            return action()
        except (self._kafka.KafkaException, SystemError) as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, self._kafka.KafkaException):
                cause = cause.__cause__ or cause.__context__
            if cause is None:
                raise
            raise self._explain(cause.args[0]) from None

    def _explain(self, error: Any) -> TrickleError:
        self._can_retry = error.retriable()
        codes = self._kafka.KafkaError
        match error.code():
            case codes._FENCED | codes.PRODUCER_FENCED | codes.INVALID_PRODUCER_EPOCH:
                return SourceBusyError(
                    f'another process began to write the topic "{self._topic}"',
                    "Nothing was written by this one; it goes on with the next push.",
                )
            case codes.MSG_SIZE_TOO_LARGE | codes.RECORD_LIST_TOO_LARGE | codes.POLICY_VIOLATION:
                return TargetRefusedError(self._topic, error.str())
            case codes.INVALID_TRANSACTION_TIMEOUT:
                return InvalidDefinitionError(
                    "transaction_seconds is longer than the brokers allow",
                    "Make it shorter, or raise transaction.max.timeout.ms of the brokers.",
                )
        return SourceUnavailableError(self._client.explain(error.str()))
