"""Faults by requests to the controller: replicas move, and other replicas become leaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

from minikafka.client.admin.admin import Admin
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.nemesis.plan import BY_REQUEST, FaultKind, PlannedFault

# Partitions of one fault: of topics of the run, and of internal topics, whose leaders are the
# coordinators of groups and transactions.
OWN: Final = 4
INTERNAL: Final = 2

NO_PLACE: Final = (
    "where is the cluster? --nemesis-data-dir, --nemesis-compose or --nemesis-command says it"
)

Replicas: TypeAlias = tuple[int, ...]  # the preferred leader first


class PlacementPlace:
    """Any cluster, by our admin client. The names of the run's topics begin with ``prefix``: of the
    other topics only internal ones are touched, and get their replicas back in the end."""

    def __init__(self, admin: Callable[[], Admin], prefix: str) -> None:
        self._admin = admin
        self._prefix = prefix
        self._brokers: Sequence[int] = ()
        self._missing = ""
        self._away: dict[TopicPartition, Replicas] = {}  # moved by the fault of now; where it was
        self._first: dict[TopicPartition, Replicas] = {}  # of internal topics, before all faults

    async def check(self, nodes: Mapping[int, Node]) -> None:
        self._brokers = sorted(nodes)
        if len(nodes) < 2:
            self._missing = "it takes two brokers"
        try:
            async with self._admin() as admin:
                await admin.list_partition_reassignments()
        except KafkaError as error:
            if error.retriable:
                raise
            self._missing = f"the cluster refuses it: {error}"
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                self._missing = "brokers before Kafka 2.4 have no request for it"

    def refusal(self, kind: FaultKind) -> str:
        return self._missing if kind in BY_REQUEST else NO_PLACE

    def victims(self, kind: FaultKind) -> Sequence[int]:
        return self._brokers

    async def begin(self, fault: PlannedFault) -> None:
        dice = Random(fault.choice)
        chosen = await self._choose(dice)
        if fault.kind is FaultKind.REASSIGN:
            self._away = chosen
            await self._move({tp: moved(was, self._brokers, dice) for tp, was in chosen.items()})
        elif chosen:
            await self._move({tp: rotated(was) for tp, was in chosen.items()})
            async with self._admin() as admin:
                await admin.elect_leaders(ElectionType.PREFERRED, list(chosen))

    async def end(self, fault: PlannedFault) -> None:
        await self._move(self._away)
        self._away = {}

    async def close(self) -> None:
        await self._move(self._first)

    async def _choose(self, dice: Random) -> dict[TopicPartition, Replicas]:
        own: dict[TopicPartition, Replicas] = {}
        internal: dict[TopicPartition, Replicas] = {}
        async with self._admin() as admin:
            topics = await admin.list_topics(include_internal=True)
        for topic in topics:
            for number, view in topic.partitions.items():
                if topic.is_internal:
                    internal[TopicPartition(topic.name, number)] = view.replicas
                elif topic.name.startswith(self._prefix):
                    own[TopicPartition(topic.name, number)] = view.replicas
        chosen: dict[TopicPartition, Replicas] = {}
        for partitions, most in ((own, OWN), (internal, INTERNAL)):
            for partition in dice.sample(sorted(partitions), min(most, len(partitions))):
                chosen[partition] = partitions[partition]
                if partitions is internal:
                    self._first.setdefault(partition, partitions[partition])
        return chosen

    async def _move(self, targets: Mapping[TopicPartition, Replicas]) -> None:
        """Request it. What becomes of single partitions shows in their replicas: their topics may
        have been deleted meanwhile."""
        if targets:
            async with self._admin() as admin:
                await admin.alter_partition_reassignments(targets)


def rotated(replicas: Replicas) -> Replicas:
    """Return the same replicas with the next one as preferred leader."""
    return (*replicas[1:], *replicas[:1])


def moved(replicas: Replicas, brokers: Sequence[int], dice: Random) -> Replicas:
    """Return where a partition goes: another broker replaces one of its replicas. Where every
    broker has one, a replica of three or more is dropped, or the order changes."""
    others = sorted(set(brokers) - set(replicas))
    place = dice.randrange(len(replicas))
    if others:
        return (*replicas[:place], dice.choice(others), *replicas[place + 1 :])
    if len(replicas) > 2:
        return (*replicas[:place], *replicas[place + 1 :])
    return rotated(replicas)
