"""OPTIONS of a stream table that is published to a topic -> values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_trickle.sources.kafka.options import read_number
from spark_trickle.sources.options import SWITCH, name_members, option


class TopicFormat(StrEnum):
    DEBEZIUM = "debezium"
    UPSERT = "upsert"


@dataclass(frozen=True)
class KafkaTargetOptions:
    """What the records of a topic say, and how a topic is created that is not there."""

    format: TopicFormat = option(  # noqa: RUF009 a field
        TopicFormat.DEBEZIUM,
        "What a record says: the old and the new row in Debezium's envelope, or only the new row.",
        name_members(TopicFormat),
    )
    tombstones: bool = option(
        True, "Whether a record without a value follows each deletion in Debezium's envelope.", SWITCH
    )
    partitions: str = option("", "How many partitions a new topic has; otherwise as many as the broker says.")
    replication: str = option(
        "", "How many brokers hold a copy of a new topic; otherwise as many as the broker says."
    )
    transaction_seconds: str = option(
        "900",
        "How long one transaction may take, the first fill included; brokers allow 900 unless their"
        " `transaction.max.timeout.ms` says more.",
    )

    @property
    def partition_count(self) -> int:
        return read_number("partitions", self.partitions) if self.partitions else -1

    @property
    def replica_count(self) -> int:
        return read_number("replication", self.replication) if self.replication else -1

    @property
    def longest(self) -> int:
        return read_number("transaction_seconds", self.transaction_seconds)
