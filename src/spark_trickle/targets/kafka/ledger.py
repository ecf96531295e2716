"""A topic -> how far it is, as the compacted topic `_trickle_published` says.

Our transactions write there what they reach, so a record counts exactly if the rows beside it do. Brokers
would forget the offsets of a group of consumers after a week in which nothing was published.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from spark_trickle.errors import SourceBusyError
from spark_trickle.sources.kafka.client import Client
from spark_trickle.sources.kafka.records import Record
from spark_trickle.targets.kafka.envelope import Message
from spark_trickle.targets.kafka.state import TopicState
from spark_trickle.targets.kafka.topics import create_topic

LEDGER = "_trickle_published"
# The newest segment is never compacted, so it is kept small.
_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "4194304", "min.cleanable.dirty.ratio": "0.1"}
_LOOK_BACK = (200, 10_000)  # records from the end that are read first
_ASK_AGAIN = 0.05  # seconds


@dataclass(frozen=True)
class TopicLedger:
    """What is noted of one topic."""

    client: Client
    topic: str

    def create(self, replicas: int) -> None:
        if LEDGER not in self.client.find_ends([LEDGER]):
            create_topic(self.client, LEDGER, 1, replicas, _CONFIG)

    def read_state(self) -> TopicState | None:
        """As far as transactions are decided; what one that is open notes may come after it."""
        return self._read_before(self._find_end(committed=True))

    def read_settled(self) -> TopicState | None:
        """The same after the last transaction of our own ended, which a writer sees to when it begins.

        Open transactions of others hide what comes after them: if that may be ours, it is waited for.
        """
        latest = time.monotonic() + self.client.timeout
        while True:
            committed, end = self._find_end(committed=True), self._find_end(committed=False)
            if not any(self._is_ours(r) for r in self._read(committed, end, committed=False)):
                return self._read_before(committed)
            if time.monotonic() > latest:
                raise SourceBusyError(
                    f'how far the topic "{self.topic}" is cannot be known yet: a transaction that began'
                    f" before in {LEDGER} is open",
                    "It ends by itself: when its process goes on, or by the timeout of transactions.",
                )
            time.sleep(_ASK_AGAIN)

    def _find_end(self, committed: bool) -> int:
        found = self.client.find_ends([LEDGER], committed)
        return found[LEDGER].next[0] if LEDGER in found else 0

    def _read_before(self, end: int) -> TopicState | None:
        """The newest record is near the end, and compaction keeps it wherever it is."""
        earliest = self.client.find_earliest(LEDGER, [0]).get(0, 0) if end else 0
        for most in (*_LOOK_BACK, end):
            begin = max(earliest, end - most)
            ours = [r for r in self._read(begin, end) if self._is_ours(r)]
            if ours:
                value = ours[-1].value
                return None if value is None else TopicState.from_bytes(value)
            if begin == earliest:
                break
        return None

    def _read(self, begin: int, end: int, committed: bool = True) -> Iterator[Record]:
        for piece in self.client.read_records(LEDGER, {0: begin}, {0: end}, committed):
            yield from piece

    def _is_ours(self, record: Record) -> bool:
        return record.key == self.topic.encode()

    def make_message(self, state: TopicState | None) -> Message:
        return Message(self.topic.encode(), None if state is None else state.to_bytes())
