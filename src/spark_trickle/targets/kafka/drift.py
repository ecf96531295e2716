"""Where a topic ends now, and where our last transaction left it -> what others did to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_trickle.errors import SourceBusyError
from spark_trickle.sources.kafka.client import Client
from spark_trickle.sources.kafka.offsets import Offsets
from spark_trickle.targets.kafka.state import TopicState
from spark_trickle.targets.kafka.transaction import Delivered


def find_drift(
    client: Client, topic: str, state: TopicState, committed: Offsets | None, end: Offsets | None
) -> tuple[str, ...]:
    """Reasons why the topic is not what we wrote, by where it ends without and with open transactions."""
    if end is None or committed is None:
        return ("the topic is gone",)
    if state.topic != end.topic:
        return ("the topic was deleted and created again",)
    if end.next.keys() - state.ends.keys():
        return ("the topic was given more partitions, so that keys may have moved",)
    short = [p for p, known in state.ends.items() if end.next.get(p, 0) < known - 1]  # the marker may be late
    if short:
        return (f"partition {min(short)} ends before what was written: records were lost",)
    if state.disturbed or _holds_records(client, topic, state.ends, committed.next):
        return ("another writer wrote records into it",)
    return ()


def _holds_records(client: Client, topic: str, begin: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    """Whether anything was committed since; what was aborted leaves offsets, and no records."""
    more = {p: end for p, end in ends.items() if end > begin[p]}
    if not more:
        return False
    earliest = client.find_earliest(topic, sorted(more))
    start = {p: min(max(begin[p], earliest.get(p, 0)), more[p]) for p in more}
    return any(client.read_records(topic, start, more))


def find_settled_ends(client: Client, topic: str) -> Offsets | None:
    """Where our next records should come to lie, once no transaction of ours is open; None: it is gone."""
    committed = client.find_ends([topic]).get(topic)
    if committed != client.find_ends([topic], committed=False).get(topic):
        raise SourceBusyError(
            f'another writer has a transaction open in the topic "{topic}"', "Let it end, and try again."
        )
    return committed


def note_ends(state: TopicState, before: Offsets, done: Delivered) -> TopicState:
    """The state with the ends after the commit, whose marker takes an offset in each partition.

    Offsets that were neither there before nor ours were written by somebody else at the same time.
    """
    ends = dict(before.next) | {p: last + 2 for p, last in done.last.items()}
    alone = all(before.next.get(p, 0) + n == done.last[p] + 1 for p, n in done.count.items())
    return replace(state, topic=before.topic, ends=ends, disturbed=not alone)
