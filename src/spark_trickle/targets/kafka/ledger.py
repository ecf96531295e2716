"""A topic -> how far it is, as the last record of a compacted topic beside it says.

Our transactions write there what they reach, so that counts exactly if the rows do. Brokers would forget the
offsets of a group of consumers after a week in which nothing was published. In a ledger of several topics, an
open transaction of a dead process would hide what the others reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_trickle.sources.kafka.client import Client
from spark_trickle.sources.kafka.records import Record
from spark_trickle.targets.kafka.envelope import Message
from spark_trickle.targets.kafka.state import TopicState
from spark_trickle.targets.kafka.topics import create_topic, delete_topic

_PREFIX = "_trickle_published."
# The newest segment is never compacted, so it is kept small.
_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "4194304", "min.cleanable.dirty.ratio": "0.1"}
_KEY = b"state"
_NEAR = 20  # offsets before the end that are read first


@dataclass(frozen=True)
class TopicLedger:
    client: Client
    topic: str

    @property
    def name(self) -> str:
        return f"{_PREFIX}{self.topic}"

    def create(self, replicas: int) -> None:
        if self.name not in self.client.find_ends([self.name]):
            create_topic(self.client, self.name, 1, replicas, _CONFIG)

    def drop(self) -> None:
        delete_topic(self.client, self.name)

    def read_state(self) -> TopicState | None:
        """As far as transactions are decided; after a writer began, none of ours is open."""
        found = self.client.find_ends([self.name])
        if self.name not in found:
            return None
        end = found[self.name].next[0]
        earliest = min(self.client.find_earliest(self.name, [0]).get(0, 0), end)
        for begin in (max(earliest, end - _NEAR), earliest):
            records = list(self._read(begin, end))
            if records:
                value = records[-1].value
                return None if value is None else TopicState.from_bytes(value)
        return None

    def _read(self, begin: int, end: int) -> Iterator[Record]:
        for piece in self.client.read_records(self.name, {0: begin}, {0: end}):
            yield from piece

    def make_message(self, state: TopicState) -> Message:
        return Message(_KEY, state.to_bytes())
