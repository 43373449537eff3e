"""Identifiers and states of a cluster's parts: partitions, brokers, endpoints, leadership.

``grouped`` groups partitions by topic, as Kafka's messages do.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Hashable, Iterable
from dataclasses import field, replace
from enum import IntEnum
from typing import NamedTuple, TypeVar
from uuid import UUID

from minikafka.kernel.lazy_dataclass import dataclass

NO_LEADER = -1
NO_EPOCH = -1
LEADER_DURING_DELETE = -2  # leader and leader_epoch that mark a partition being deleted
EPOCH_DURING_DELETE = -2
ZERO_UUID = UUID(int=0)

CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC}
)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionAndReplica(NamedTuple):
    topic_partition: TopicPartition
    replica: int


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One listener of a broker as clients see it."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker. ``epoch`` is the czxid of its ``/brokers/ids/<id>`` node."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = NO_EPOCH

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.listener == listener), None)


class ProducerIdAndEpoch(NamedTuple):
    """A producer as brokers know it; both are -1 before InitProducerId."""

    producer_id: int = -1
    epoch: int = -1


class CoordinatorType(IntEnum):
    """Kafka's ``FindCoordinatorRequest.CoordinatorType``."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class ElectionType(IntEnum):
    """The kind of leader election that an administrator requests (KIP-460)."""

    PREFERRED = 0  # the first replica, if it is in sync
    UNCLEAN = 1  # any live replica where none in sync is left; may lose records


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The leader of a partition and its in-sync replicas. ``zk_version`` is that of the state znode
    (Kafka's partition epoch)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int = 0
    leader_recovery_state: int = 0

    def new_leader(self, leader: int, isr: tuple[int, ...] | None = None) -> LeaderAndIsr:
        """Return the state after the election of ``leader``: the next leader epoch."""
        return replace(
            self,
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=self.isr if isr is None else isr,
        )


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """The state of a partition. ``mzxid`` is that of its znode when it was read, and is no part of
    the state; -1 for one that was not read."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
    mzxid: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Replicas of one partition in preference order; ``adding`` and ``removing`` only while it is
    being reassigned (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def topic_id_text(topic_id: UUID) -> str:
    """Return 22 characters of URL-safe base64 without padding, as Kafka prints its ids."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> UUID:
    """Parse the text that ``topic_id_text`` returns. Raises ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Collect the values of each key. Keys and values keep the order in which they first appear.

    A ``TopicPartition`` is such a pair: ``grouped(partitions)`` maps each topic to its partition
    numbers. A message with a row for each topic is built from the result::

        [TopicRow(name, rows) for name, rows in grouped(...).items()]
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        group = groups.get(key)
        if group is None:
            groups[key] = [value]
        else:
            group.append(value)
    return groups
