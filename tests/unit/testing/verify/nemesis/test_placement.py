"""Moves of replicas and leaders: where they go, what is asked, and that they come back."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.admin.admin import Admin
from minikafka.core.client.cluster_view import Node, PartitionView, TopicView
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.nemesis.placement import PlacementPlace, moved, rotated
from minikafka.testing.verify.nemesis.plan import FaultKind, PlannedFault

REPLICAS = st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True).map(tuple)
NODES = {broker: Node(broker, "host", 9092, None) for broker in (1, 2, 3)}


@given(REPLICAS, st.integers())
def test_a_move_needs_one_broker_more_or_drops_one(replicas: tuple[int, ...], seed: int) -> None:
    brokers = range(1, 7)
    to = moved(replicas, brokers, Random(seed))
    assert len(set(to)) == len(to) == len(replicas)
    assert set(to) <= set(brokers)
    assert len(set(to) - set(replicas)) == 1
    narrow = moved(replicas, replicas, Random(seed))
    assert set(narrow) <= set(replicas)
    assert len(narrow) == (len(replicas) - 1 if len(replicas) > 2 else len(replicas))


@given(REPLICAS)
def test_a_rotation_makes_each_replica_preferred_in_turn(replicas: tuple[int, ...]) -> None:
    turn, firsts = replicas, []
    for _ in replicas:
        firsts.append(turn[0])
        turn = rotated(turn)
    assert turn == replicas
    assert sorted(firsts) == sorted(replicas)


class AdminOfThree:
    """Records the requests. Topics have replicas on all three brokers."""

    def __init__(self) -> None:
        self.replicas = {
            TopicPartition(topic, number): (1, 2, 3)
            for topic in ("of-the-run", "of-others", "__consumer_offsets")
            for number in range(8)
        }
        self.elected: list[TopicPartition] = []
        self.error: ErrorCode | None = None

    async def __aenter__(self) -> AdminOfThree:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_topics(self, include_internal: bool) -> list[TopicView]:
        assert include_internal
        topics = dict.fromkeys(tp.topic for tp in self.replicas)
        return [
            TopicView(
                name,
                is_internal=name.startswith("__"),
                partitions={
                    tp.partition: PartitionView(tp.partition, replicas=replicas)
                    for tp, replicas in self.replicas.items()
                    if tp.topic == name
                },
            )
            for name in topics
        ]

    async def list_partition_reassignments(self) -> dict[TopicPartition, Any]:
        if self.error is not None:
            raise KafkaError(self.error)
        return {}

    async def alter_partition_reassignments(self, targets: Any) -> None:
        self.replicas.update(targets)

    async def elect_leaders(self, kind: ElectionType, partitions: Sequence[TopicPartition]) -> None:
        assert kind is ElectionType.PREFERRED
        self.elected += partitions


def place_of(admin: AdminOfThree) -> PlacementPlace:
    return PlacementPlace(lambda: cast(Admin, admin), "of-the-")


def fault(kind: FaultKind) -> PlannedFault:
    return PlannedFault(1, kind, (), 0, 0, choice=7)


def changed(admin: AdminOfThree) -> dict[TopicPartition, tuple[int, ...]]:
    return {tp: each for tp, each in admin.replicas.items() if each != (1, 2, 3)}


async def test_replicas_move_and_come_back() -> None:
    admin = AdminOfThree()
    place = place_of(admin)
    await place.check(NODES)
    assert place.refusal(FaultKind.REASSIGN) == ""
    await place.begin(fault(FaultKind.REASSIGN))
    away = changed(admin)
    assert sorted({tp.topic for tp in away}) == ["__consumer_offsets", "of-the-run"]
    assert all(len(replicas) == 2 for replicas in away.values())
    await place.end(fault(FaultKind.REASSIGN))
    assert changed(admin) == {}


async def test_other_leaders_are_elected_and_internal_topics_get_their_order_back() -> None:
    admin = AdminOfThree()
    place = place_of(admin)
    await place.check(NODES)
    await place.begin(fault(FaultKind.ELECT))
    await place.end(fault(FaultKind.ELECT))
    assert set(changed(admin)) == set(admin.elected)
    assert set(changed(admin).values()) == {(2, 3, 1)}
    await place.begin(fault(FaultKind.ELECT))
    assert set(changed(admin).values()) == {(3, 1, 2)}
    await place.close()
    assert {tp.topic for tp in changed(admin)} == {"of-the-run"}


async def test_what_cannot_be_requested() -> None:
    admin = AdminOfThree()
    place = place_of(admin)
    await place.check({1: NODES[1]})
    assert "two brokers" in place.refusal(FaultKind.ELECT)
    assert "--nemesis-data-dir" in place.refusal(FaultKind.KILL9)
    admin.error = ErrorCode.UNSUPPORTED_VERSION
    await place.check(NODES)
    assert "2.4" in place.refusal(FaultKind.REASSIGN)
    admin.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await place.check(NODES)
    assert "the cluster refuses it: CLUSTER_AUTHORIZATION" in place.refusal(FaultKind.REASSIGN)
    admin.error = ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError):
        await place.check(NODES)
