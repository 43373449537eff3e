"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: responses, waiting."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from minikafka.core.purgatory import Purgatory
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListReassignmentsTopic,
)
from minikafka.protocol.messages.registry import response_class
from minikafka.server.broker.admin.elections import LeaderElectionAdmin
from minikafka.server.broker.apis.cluster.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from minikafka.server.broker.apis.cluster.elect_leaders import ElectLeadersHandler
from minikafka.server.broker.apis.cluster.list_partition_reassignments import (
    ListPartitionReassignmentsHandler,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.purgatories import Reaper
from tests.support.broker.cluster_metadata import cache_with, live_broker, partition_state, update
from tests.support.world.manual_clock import ManualClock

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MOVED = KafkaError(ErrorCode.NOT_CONTROLLER, "moved")


class Controller:
    """Return ``result``, or raise it if it is an error. ``requests`` lists the arguments."""

    def __init__(self) -> None:
        self.result: Any = {}
        self.requests: list[Any] = []

    async def _respond(self, *request: Any) -> Any:
        self.requests.append(request)
        if isinstance(self.result, KafkaError):
            raise self.result
        return self.result

    def elect_leaders(self, partitions: Any, election_type: ElectionType) -> Any:
        return self._respond(list(partitions), election_type)

    def alter_partition_reassignments(self, targets: Any, may_change_factor: bool) -> Any:
        return self._respond(targets, may_change_factor)

    def list_partition_reassignments(self, partitions: Any) -> Any:
        return self._respond(partitions)


class Lab:
    """Broker 1 of 1, 2, 3; t has two partitions, u one, all led by 2."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.controller = Controller()
        self.cache = cache_with(self.update_metadata(2))
        self.reaper: Reaper[Any] = Reaper(self.clock, Purgatory("ElectLeader"), "ElectLeader")
        self.elections = LeaderElectionAdmin(cast(Any, self.controller), self.cache, self.reaper)

    def update_metadata(self, leader: int) -> Any:
        return update(
            {
                "t": [partition_state(0, leader), partition_state(1, leader)],
                "u": [partition_state(0, leader)],
            },
            brokers=[live_broker(b) for b in (1, 2, 3)],
        )

    async def send(self, handler: Any, request: Any, version: int) -> Any:
        key = request.SPEC.api_key
        request = decode(type(request), version, encode(request, version))
        context = RequestContext(RequestHeader(key, version, 1), "PLAINTEXT", "h")
        response = await handler(context, request)
        return decode(response_class(request), version, encode(response, version))

    async def elect(self, topics: Any, version: int = 2, **fields: Any) -> list[Any]:
        """(partition, error, message) of each."""
        rows = None if topics is None else [ElectLeadersTopic(*row) for row in topics]
        request = ElectLeadersRequest(topic_partitions=rows, **fields)
        handler = ElectLeadersHandler(self.elections)
        response = await self.send(handler, request, version)
        return [response.error_code] + [
            (f"{topic.topic}-{p.partition_id}", ErrorCode(p.error_code).name, p.error_message)
            for topic in response.replica_election_results
            for p in topic.partition_result
        ]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_election_responds_when_the_metadata_cache_shows_the_leader(version: int) -> None:
    lab = Lab()
    needless = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    lab.controller.result = {T0: 3, T1: needless}
    election = asyncio.ensure_future(lab.elect([("t", [0, 1])], version))
    await asyncio.sleep(0.001)
    assert not election.done()
    lab.cache.update(lab.update_metadata(3))
    lab.elections.topic_changed("t")
    assert await election == [0, ("t-0", "NONE", None), ("t-1", "ELECTION_NOT_NEEDED", None)]
    assert lab.controller.requests == [([T0, T1], ElectionType.PREFERRED)]


async def test_election_already_in_the_cache_responds_immediately() -> None:
    lab = Lab()
    lab.controller.result = {T0: 2}
    assert await lab.elect([("t", [0])]) == [0, ("t-0", "NONE", None)]


async def test_a_leader_that_is_not_seen_in_time() -> None:
    lab = Lab()
    lab.controller.result = {T0: 3, U0: 2}
    election = asyncio.ensure_future(lab.elect([("t", [0]), ("u", [0])], timeout_ms=500))
    await asyncio.sleep(0.001)
    lab.clock.advance(1_000)
    assert await election == [0, ("t-0", "REQUEST_TIMED_OUT", None), ("u-0", "NONE", None)]


async def test_all_partitions_without_those_that_need_nothing() -> None:
    lab = Lab()
    needless = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    unavailable = KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "nobody")
    lab.controller.result = {T0: needless, T1: unavailable, U0: 2}
    assert await lab.elect(None, election_type=1) == [
        0,
        ("t-1", "PREFERRED_LEADER_NOT_AVAILABLE", "nobody"),
        ("u-0", "NONE", None),
    ]
    assert lab.controller.requests == [([T0, T1, U0], ElectionType.UNCLEAN)]


async def test_elections_elsewhere_and_of_an_unknown_type() -> None:
    lab = Lab()
    lab.controller.result = MOVED
    assert await lab.elect([("t", [0])]) == [0, ("t-0", "NOT_CONTROLLER", "moved")]
    assert await lab.elect([("t", [0])], election_type=7) == [ErrorCode.INVALID_REQUEST]


async def test_reassignments() -> None:
    lab = Lab()
    handler = AlterPartitionReassignmentsHandler(cast(Any, lab.controller))
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic("t", [ReassignablePartition(0, [1, 2]), ReassignablePartition(1)]),
            ReassignableTopic("u", [ReassignablePartition(0, [])]),
        ]
    )
    invalid = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty")
    lab.controller.result = {U0: invalid, T1: None, T0: None}
    response = await lab.send(handler, request, 0)
    assert lab.controller.requests == [({T0: (1, 2), T1: None, U0: ()}, True)]
    assert (response.error_code, response.error_message) == (0, None)
    assert [
        (topic.name, p.partition_index, p.error_code, p.error_message)
        for topic in response.responses
        for p in topic.partitions
    ] == [("t", 0, 0, None), ("t", 1, 0, None), ("u", 0, 39, "empty")]
    lab.controller.result = MOVED
    response = await lab.send(handler, request, 0)
    assert (response.error_code, response.error_message) == (41, "moved")
    assert response.responses == []


async def test_the_replication_factor_may_be_kept_since_version_1() -> None:
    lab = Lab()
    handler = AlterPartitionReassignmentsHandler(cast(Any, lab.controller))
    topics = [ReassignableTopic("t", [ReassignablePartition(0, [1])])]
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=False, topics=topics
    )
    for result in ({T0: None}, MOVED):
        lab.controller.result = result
        response = await lab.send(handler, request, 1)
        assert response.allow_replication_factor_change is False
    assert lab.controller.requests == [({T0: (1,)}, False)] * 2
    with pytest.raises(ValueError, match="allow_replication_factor_change"):
        encode(request, 0)


@pytest.mark.parametrize("some", [True, False])
async def test_a_list_of_reassignments(some: bool) -> None:
    lab = Lab()
    handler = ListPartitionReassignmentsHandler(cast(Any, lab.controller))
    topics = [ListReassignmentsTopic("t", [0, 1])] if some else None
    request = ListPartitionReassignmentsRequest(topics=topics)
    lab.controller.result = {T1: ReplicaAssignment((3, 1, 2), (3,), (1, 2))}
    response = await lab.send(handler, request, 0)
    assert lab.controller.requests == [([T0, T1] if some else None,)]
    assert [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    ] == [("t", 1, [3, 1, 2], [3], [1, 2])]
    lab.controller.result = MOVED
    response = await lab.send(handler, request, 0)
    assert (response.error_code, response.topics) == (41, [])
