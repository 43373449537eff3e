"""ISRs that leaders have the controller write: requests, responses, and controllers without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.replication.isr_outcomes import (
    IsrFailed,
    IsrLost,
    IsrOutcome,
    IsrWithdrawn,
    IsrWritten,
)
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from minikafka.server.broker.replication.isr import (
    ControllerIsrWrites,
    IsrChange,
    IsrChanges,
    alter_partition,
    outcomes,
)
from tests.support.broker.replicas import ReplicaCluster, error_of

A, B, OTHER = TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1)
IDS = {"a": UUID(int=10), "b": UUID(int=11)}


def change(isr: tuple[int, ...], topic_id: UUID | None, version: int = 4) -> IsrChange:
    state = LeaderAndIsr(1, 2, isr, version)
    return IsrChange(LeaderIsrAndControllerEpoch(state, 9), topic_id)


def changes(by_id: bool = True) -> dict[TopicPartition, IsrChange]:
    return {
        tp: change((1, 2), IDS[tp.topic] if by_id else None, version)
        for tp, version in ((A, 4), (OTHER, 5), (B, 6))
    }


def altered(tp: TopicPartition, version: int) -> AlteredPartition:
    return AlteredPartition(tp.partition, 0, 1, 2, [1, 2], 0, version)


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("version", range(4))
def test_a_request_has_every_change_in_every_version(version: int) -> None:
    request = alter_partition(1, 77, changes(), version)
    request = decode(AlterPartitionRequest, version, encode(request, version))
    assert (request.broker_id, request.broker_epoch) == (1, 77)
    topics = [(topic.topic_name, topic.topic_id) for topic in request.topics]
    assert topics == [
        (name if version < 2 else "", IDS[name] if version >= 2 else UUID(int=0))
        for name in ("a", "b")
    ]
    rows = [
        (row.partition_index, row.leader_epoch, row.partition_epoch)
        for topic in request.topics
        for row in topic.partitions
    ]
    assert rows == [(0, 2, 4), (3, 2, 6), (1, 2, 5)]
    for topic in request.topics:
        for row in topic.partitions:
            members = [
                (member.broker_id, member.broker_epoch) for member in row.new_isr_with_epochs
            ]
            assert row.new_isr == ([1, 2] if version < 3 else [])
            assert members == ([(1, -1), (2, -1)] if version >= 3 else [])


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("version", range(4))
def test_a_response_has_an_outcome_for_each_change(version: int) -> None:
    response = AlterPartitionResponse(
        topics=[
            AlteredTopic("a", IDS["a"], [altered(A, 5), AlteredPartition(99)]),
            AlteredTopic("b", IDS["b"], [AlteredPartition(1, ErrorCode.FENCED_LEADER_EPOCH)]),
        ]
    )
    response = decode(AlterPartitionResponse, version, encode(response, version))
    found = outcomes(changes(), response)
    assert found[A] == IsrWritten(5, is_announced=True)
    assert isinstance(found[B], IsrFailed)  # not in the response
    assert isinstance(found[OTHER], IsrLost)
    assert len(found) == 3


class Link:
    """A connection to a controller that serves AlterPartition up to ``offered``, or does not."""

    def __init__(self, respond: Callable[[AlterPartitionRequest], Any], offered: int = 3) -> None:
        self.respond = respond
        self.offered = offered
        self.versions: list[int] = []

    async def request_in_highest_version(
        self, api_key: int, highest: int, make: Callable[[int], Any], timeout_ms: int
    ) -> Any:
        assert api_key == ApiKey.ALTER_PARTITION
        if self.offered < 0:
            return None
        version = min(highest, self.offered)
        self.versions.append(version)
        return await self.respond(make(version))


class Znodes:
    def __init__(self) -> None:
        self.written: list[TopicPartition] = []

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        self.written += changes
        return {tp: IsrWritten(8, is_announced=False) for tp in changes}


def writes(link: Link, znodes: Znodes, by_id: bool = True) -> ControllerIsrWrites:
    part: Any = link
    return ControllerIsrWrites(part, 1, lambda: 77, by_id, znodes)


async def refused(request: AlterPartitionRequest) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)


async def unreachable(request: AlterPartitionRequest) -> AlterPartitionResponse:
    raise TimeoutError


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("respond", [refused, unreachable])
async def test_without_an_outcome_the_changes_have_failed(respond: Any) -> None:
    znodes = Znodes()
    found = await writes(Link(respond), znodes).write(changes())
    assert {type(outcome) for outcome in found.values()} == {IsrFailed}
    assert znodes.written == []


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize(("by_id", "version"), [(True, 3), (False, 1)])
async def test_topics_without_an_id_are_requested_by_name(by_id: bool, version: int) -> None:
    link = Link(refused)
    await writes(link, Znodes()).write(changes(by_id))
    assert link.versions == [version]


@pytest.mark.mission("MIX-6")
async def test_below_protocol_2_8_topics_are_requested_by_name_although_they_have_ids() -> None:
    link = Link(refused)
    await writes(link, Znodes(), by_id=False).write(changes())
    assert link.versions == [1]


@pytest.mark.mission("MIX-6")
async def test_a_controller_without_alter_partition_finds_the_isr_in_zookeeper() -> None:
    znodes = Znodes()
    found = await writes(Link(refused, offered=-1), znodes).write(changes())
    assert znodes.written == list(changes())
    assert set(found.values()) == {IsrWritten(8, is_announced=False)}


class Controller:
    """What a leader's changes meet: each outcome of ``outcomes`` once, then success."""

    def __init__(self, *outcomes: IsrOutcome) -> None:
        self.outcomes = list(outcomes)
        self.tries: list[tuple[int, ...]] = []

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        await asyncio.sleep(0)
        found: dict[TopicPartition, IsrOutcome] = {}
        for tp, wanted in changes.items():
            state = wanted.state.leader_and_isr
            self.tries.append(state.isr)
            written = IsrWritten(state.zk_version + 1, is_announced=True)
            found[tp] = self.outcomes.pop(0) if self.outcomes else written
        return found


@pytest.mark.mission("MIX-6")
async def test_an_isr_that_the_controller_wrote_is_not_announced_to_it() -> None:
    controller = Controller()
    async with ReplicaCluster(isr_writes=controller) as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        produced = cluster[1].produce("a", timeout_ms=60_000)
        await cluster.clock.advance(20_000)
        assert cluster[1].partition().state.isr.committed == (1, 2)
        assert cluster[1].partition().state.zk_version == 1
        assert error_of(produced) is ErrorCode.NONE
        await cluster.clock.advance(20_000)
        assert cluster.znodes.announced == []


@pytest.mark.mission("MIX-6")
async def test_a_failed_change_is_requested_again() -> None:
    controller = Controller(IsrFailed("no response"), IsrFailed("NOT_CONTROLLER"))
    async with ReplicaCluster(isr_writes=controller) as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        produced = cluster[1].produce("a", timeout_ms=60_000)
        await cluster.clock.advance(20_000)
        assert controller.tries == [(1, 2)] * 3
        assert error_of(produced) is ErrorCode.NONE


@pytest.mark.mission("MIX-6")
async def test_a_withdrawn_change_can_be_proposed_again() -> None:
    controller = Controller(IsrWithdrawn("INELIGIBLE_REPLICA"))
    async with ReplicaCluster(isr_writes=controller) as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster[1].produce("a", timeout_ms=60_000)
        await cluster.clock.advance(15_000)
        assert controller.tries == [(1, 2)]
        assert not cluster[1].partition().state.isr.in_flight
        await cluster.clock.advance(15_000)
        assert controller.tries == [(1, 2)] * 2
        assert cluster[1].partition().state.isr.committed == (1, 2)


@pytest.mark.mission("MIX-6")
async def test_after_a_lost_change_the_leader_waits_for_leader_and_isr() -> None:
    controller = Controller(IsrLost("FENCED_LEADER_EPOCH"))
    async with ReplicaCluster(isr_writes=controller) as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(3)
        cluster[1].produce("a", acks=1)
        await cluster.clock.advance(60_000)
        partition = cluster[1].partition()
        assert controller.tries == [(1, 2)]
        assert partition.state.isr.lost
        assert partition.high_watermark == 0
        await cluster.elect(1, isr=[1, 2], epoch=1, tell=[1, 2])
        await cluster.clock.advance(1_000)
        assert partition.high_watermark == 1
