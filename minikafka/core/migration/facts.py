"""The facts about a cluster that decide which step of a migration is safe.

A broker of ours is known by the read-only entry ``minikafka.version`` in DescribeConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, TypeAlias

from minikafka.core.client.cluster_view import PartitionView
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass

KafkaVersion: TypeAlias = tuple[int, int]

OLDEST: Final[KafkaVersion] = (2, 0)
NEWEST: Final[KafkaVersion] = (3, 9)

IBP: Final = "inter.broker.protocol.version"
MESSAGE_FORMAT: Final = "log.message.format.version"


class Kind(Enum):
    """The software of a broker. UNKNOWN: the broker did not describe its configuration."""

    KAFKA = "kafka"
    MINIKAFKA = "minikafka"
    UNKNOWN = "unknown"


class Way(Enum):
    """IN_PLACE: each broker is stopped and one of the other kind started with its id and data.
    ADD: brokers of the other kind join, all partitions move to them, the old ones are stopped."""

    IN_PLACE = "in-place"
    ADD = "add"


@dataclass(frozen=True, slots=True)
class Goal:
    """What is migrated to. ``kafka_version`` is the version of Kafka where that is the target."""

    to: Kind
    way: Way
    kafka_version: KafkaVersion = NEWEST

    @property
    def source(self) -> Kind:
        return Kind.KAFKA if self.to is Kind.MINIKAFKA else Kind.MINIKAFKA

    @property
    def version(self) -> KafkaVersion:
        """The highest inter-broker protocol that the target speaks, and its default."""
        return self.kafka_version if self.to is Kind.KAFKA else NEWEST


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A live broker.

    ``settings`` are the values in effect, and ``given`` those of them that are not defaults.
    ``in_file`` are those of ``server.properties``; None is a value that the broker does not show:
    a secret, or with Kafka that of a key that it does not know. ``offline_dirs`` are its failed log
    directories. ``usable_bytes`` is what can still be written to its volumes, None if it is not
    known, and ``replica_bytes`` are the sizes of its replicas. ``silence`` is the error of a broker
    that did not describe itself.
    """

    broker_id: int
    kind: Kind
    release: str = ""
    address: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    in_file: Mapping[str, str | None] = field(default_factory=dict)
    offline_dirs: tuple[str, ...] = ()
    usable_bytes: int | None = None
    replica_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    silence: str = ""

    def protocol(self) -> KafkaVersion | None:
        """Return the broker's inter.broker.protocol.version; None if it is not known."""
        return parse_version(self.settings.get(IBP, ""))

    def is_on(self, name: str) -> bool:
        return self.settings.get(name, "").lower() == "true"


@dataclass(frozen=True, slots=True)
class ZookeeperFacts:
    """Facts that only ZooKeeper has."""

    kraft_migration: bool = False
    reassignment: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """A log directory of a stopped broker. ``old_formats`` are segments with message sets (magic 0
    or 1), which minikafka does not read."""

    path: str
    exists: bool
    clean_shutdown: bool = False
    old_formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster at one moment.

    ``unsettled`` are partitions that not all brokers show alike: a change is on its way to them.
    ``reassigning`` is None if the brokers cannot list reassignments (Kafka before 2.4) and
    ZooKeeper was not read. ``zookeeper`` is None if it was not read. ``finalized`` are the levels
    of finalized features.
    """

    controller: int
    brokers: Mapping[int, BrokerFacts]
    partitions: Mapping[TopicPartition, PartitionView]
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reassigning: frozenset[TopicPartition] | None = frozenset()
    unsettled: frozenset[TopicPartition] = frozenset()
    zookeeper: ZookeeperFacts | None = None
    directories: tuple[DirectoryFacts, ...] = ()
    finalized: Mapping[str, int] = field(default_factory=dict)

    def of_kind(self, kind: Kind) -> list[int]:
        return sorted(b for b, broker in self.brokers.items() if broker.kind is kind)

    def old(self, goal: Goal) -> list[int]:
        """Return the live brokers that are not of the target's kind, the controller last."""
        ids = [b for b, broker in self.brokers.items() if broker.kind is not goal.to]
        return sorted(ids, key=lambda broker_id: (broker_id == self.controller, broker_id))

    def away(self) -> list[int]:
        """Return the brokers that have replicas and are not live."""
        named = {broker for view in self.partitions.values() for broker in view.replicas}
        return sorted(named - set(self.brokers))

    def size(self, tp: TopicPartition) -> int:
        """Return the bytes of a partition's largest replica."""
        return max((b.replica_bytes.get(tp, 0) for b in self.brokers.values()), default=0)

    def min_isr(self, topic: str) -> int:
        return int(self.topic_settings.get(topic, {}).get("min.insync.replicas", "1"))


def parse_version(text: str) -> KafkaVersion | None:
    """Return major and minor of a version of Kafka such as ``2.8-IV1``; None for other text."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def version_text(version: KafkaVersion) -> str:
    return f"{version[0]}.{version[1]}"


def kafka_releases(highest_fetch: int | None) -> str:
    """Return which releases of Kafka have this highest version of Fetch, as text for users.

    Kafka does not tell its version. Fetch changed in more releases than any other request.
    """
    known = {
        7: "1.1",
        8: "2.0",
        10: "2.1 or 2.2",
        11: "2.3 to 2.6",
        12: "2.7 to 3.0",
        13: "3.1 to 3.4",
        15: "3.5 or 3.6",
        16: "3.7 or 3.8",
        17: "3.9",
    }
    return known.get(highest_fetch, "") if highest_fetch is not None else ""


def settled(
    shown: Sequence[Mapping[TopicPartition, PartitionView]],
) -> tuple[dict[TopicPartition, PartitionView], frozenset[TopicPartition]]:
    """Combine the partitions that each broker shows.

    Return them with the replicas that all brokers count as in sync, and those partitions that not
    all show alike. One broker's metadata may be late, or in part, just after its start.
    """
    views: dict[TopicPartition, PartitionView] = {}
    unsettled: set[TopicPartition] = set()
    for tp in sorted({tp for partitions in shown for tp in partitions}):
        found = [partitions[tp] for partitions in shown if tp in partitions]
        common = set(found[0].isr).intersection(*(view.isr for view in found))
        views[tp] = found[0]._replace(isr=tuple(sorted(common)))
        alike = {(view.leader, view.replicas, frozenset(view.isr)) for view in found}
        if len(found) < len(shown) or len(alike) > 1:
            unsettled.add(tp)
    return views, frozenset(unsettled)
