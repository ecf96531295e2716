"""The name of a topic -> the topic, made and deleted."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from spark_trickle.errors import InvalidDefinitionError, SourceUnavailableError, TargetRefusedError
from spark_trickle.sources.kafka.client import Client

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_ASK_AGAIN = 0.05  # seconds


def require_topic_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidDefinitionError(
            f'"{name}" is no name of a topic', "Use letters, digits, dots, underscores and hyphens."
        )


def create_topic(
    client: Client, name: str, partitions: int, replicas: int, config: Mapping[str, str]
) -> None:
    """Make a topic, and wait until the brokers know it; −1 means what they say themselves."""
    from confluent_kafka import KafkaError, KafkaException, admin

    names: Any = admin  # of which not all have types
    asked = names.NewTopic(name, partitions, replicas, config=dict(config))
    future = client.attempt(lambda: client.admin.create_topics([asked], request_timeout=client.timeout))[name]
    try:
        future.result(client.timeout + 1)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TargetRefusedError(name, error.args[0].str()) from None
    _await(client, name, True)


def delete_topic(client: Client, name: str) -> None:
    """Delete a topic that is there, and wait until the brokers have forgotten it."""
    future = client.attempt(lambda: client.admin.delete_topics([name], request_timeout=client.timeout))[name]
    client.await_answer(future)
    _await(client, name, False)


def _await(client: Client, name: str, there: bool) -> None:
    latest = time.monotonic() + client.timeout
    while _is_there(client, name) is not there:
        if time.monotonic() > latest:
            raise SourceUnavailableError(f'the brokers are slow to learn what became of the topic "{name}"')
        time.sleep(_ASK_AGAIN)


def _is_there(client: Client, name: str) -> bool | None:
    """A partition that was just made has no leader for a moment."""
    try:
        return name in client.find_ends([name])
    except SourceUnavailableError:
        return None
