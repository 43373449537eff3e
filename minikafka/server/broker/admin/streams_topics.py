"""Creation of the internal topics of streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from minikafka.core.group.streams.topology import InternalTopic
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.quotas import TakePermits

MOST_PROBLEMS: Final = 1_000


class _Problem(NamedTuple):
    text: str
    until_ms: int


class StreamsTopicCreation:
    """Creates internal topics as the members of streams groups send heartbeats.

    A topic that could not be created is not tried again until ``back_off_ms`` have passed, and
    meanwhile the reason is kept: members receive it with their next heartbeats. Kafka:
    ``AutoTopicCreationManager.createStreamsInternalTopics``, ``ExpiringErrorCache``.
    """

    def __init__(self, creation: AutoTopicCreation, clock: Clock) -> None:
        self._creation = creation
        self._clock = clock
        self._problems: dict[str, _Problem] = {}

    def create(
        self, topics: Mapping[str, InternalTopic], back_off_ms: int, take_permits: TakePermits
    ) -> None:
        """Start to create topics, whose names are valid, and return at once."""
        self._forget_old_problems()
        creatable = [_creatable(t) for name, t in topics.items() if name not in self._problems]
        self._creation.begin_shaped(creatable, take_permits, partial(self._settled, back_off_ms))

    def problems(self, topics: Iterable[str]) -> dict[str, str]:
        """Return why topics could not be created, for those for which this is known."""
        self._forget_old_problems()
        return {name: self._problems[name].text for name in topics if name in self._problems}

    def _settled(self, back_off_ms: int, topic: str, error: KafkaError | None) -> None:
        if error is not None:
            self._problems.pop(topic, None)  # the newest is the last one
            until_ms = self._clock.monotonic_ms() + back_off_ms
            self._problems[topic] = _Problem(error.message or error.code.name, until_ms)
            if len(self._problems) > MOST_PROBLEMS:
                del self._problems[next(iter(self._problems))]

    def _forget_old_problems(self) -> None:
        now_ms = self._clock.monotonic_ms()
        over = [name for name, problem in self._problems.items() if problem.until_ms <= now_ms]
        for name in over:
            del self._problems[name]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    """0 for the replication factor stands for the default of the controller."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(key, value) for key, value in topic.configs.items()],
    )
