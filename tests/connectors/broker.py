"""A real broker of Apache Kafka, from the jars that `make test-connectors` installs, and those who write to it."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

JARS = Path(__file__).parents[2] / ".connectors" / "kafka"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://localhost:{port},SASL://localhost:{secured},CONTROLLER://localhost:{controller}
advertised.listeners=PLAINTEXT://localhost:{port},SASL://localhost:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={login} required user_trickle="{password}";
log.dirs={folder}/logs
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=100
log.cleaner.dedupe.buffer.size=4194304
log.retention.check.interval.ms=200
log.initial.task.delay.ms=100
file.delete.delay.ms=100
"""
PASSWORD = "open sesame"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*")


@dataclass
class Broker:
    """One process in KRaft mode, which can be stopped and started again with what it had."""

    folder: Path
    port: int
    secured: int = 0  # the port where a password is asked for
    process: subprocess.Popen[bytes] | None = None
    made: int = 0
    _producer: Producer | None = None
    _admin: AdminClient | None = field(default=None, repr=False)

    @classmethod
    def format(cls, folder: Path) -> Broker:
        port, secured, controller = _find_ports(3)
        broker = cls(folder, port, secured)
        values = {"port": port, "secured": secured, "controller": controller, "folder": folder}
        broker.settings.write_text(_SETTINGS.format(**values, login=_LOGIN, password=PASSWORD))
        cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        command = [*_JAVA, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(broker.settings)]
        subprocess.run(command, check=True, capture_output=True)
        return broker

    @property
    def settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def servers(self) -> str:
        return f"localhost:{self.port}"

    def start(self) -> None:
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*_JAVA, "kafka.Kafka", str(self.settings)], stdout=log, stderr=subprocess.STDOUT
            )
        self.admin.list_topics(timeout=60)

    def stop(self, kill: bool = False) -> None:
        assert self.process is not None
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(60)
        self.process = None

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._admin

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        made = NewTopic(topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
        self.admin.create_topics([made])[topic].result(60)
        self._await(lambda: topic in self.admin.list_topics(timeout=10).topics)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(60)
        self._await(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)
        self._await(lambda: len(self.admin.list_topics(timeout=10).topics[topic].partitions) == total)
        self._producer = None  # it would learn of them later

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """What retention does, at once."""
        asked = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for future in self.admin.delete_records(asked).values():
            future.result(60)

    def topic_id(self, topic: str) -> str:
        found = self.admin.describe_topics(TopicCollection([topic]))[topic].result(60)
        return str(found.topic_id)

    def write(self, topic: str, values: Iterable[Any], partition: int = 0, key: Any = None) -> None:
        """Values, or pairs of key and value."""
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for value in values:
            own, text = value if isinstance(value, tuple) else (key, value)
            self._producer.produce(topic, text, own, partition, on_delivery=_check)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def write_transaction(self, topic: str, values: Iterable[Any], commit: bool, partition: int = 0) -> None:
        with self.open_transaction(topic, values, partition) as producer:
            if commit:
                producer.commit_transaction(60)

    @contextmanager
    def open_transaction(self, topic: str, values: Iterable[Any], partition: int = 0) -> Iterator[Producer]:
        """Records that nobody may read yet; what is not committed is aborted."""
        self.made += 1
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"t{self.made}", "log_level": 0}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, None, partition)
        assert producer.flush(60) == 0
        yield producer
        with suppress(KafkaException):  # it was committed
            producer.abort_transaction(60)

    def read_offsets(self, topic: str) -> list[int]:
        """The offsets of the records that are in the only partition now."""
        config = {"bootstrap.servers": self.servers, "group.id": "tests", "enable.partition.eof": True}
        consumer, found = Consumer({**config, "log_level": 0}), list[int]()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found.append(message.offset())
        consumer.close()
        return found

    def await_compaction(self, topic: str, fewer_than: int) -> None:
        self._await(lambda: len(self.read_offsets(topic)) < fewer_than)

    def _await(self, done: Any) -> None:
        """The broker tells of a topic a little after it was made; how long that takes does not matter."""
        while not done():
            pass


def _check(error: Any, message: Any) -> None:
    assert error is None, error


def _find_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
