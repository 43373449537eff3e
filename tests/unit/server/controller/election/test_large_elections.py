"""Elections that name every partition of a large cluster."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.core.metadata_image import MetadataImage
from minikafka.core.purgatory import Purgatory
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListReassignmentsTopic,
)
from minikafka.server.broker.admin.elections import DelayedElectLeader, LeaderElectionAdmin
from minikafka.server.broker.apis.cluster.elect_leaders import ElectLeadersHandler
from minikafka.server.broker.apis.cluster.list_partition_reassignments import (
    ListPartitionReassignmentsHandler,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.purgatories import Reaper
from tests.support.broker.cluster_metadata import cache_with, partition_state, update
from tests.support.controller.controller_lab import NewCluster
from tests.support.world.manual_clock import ManualClock
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element

COUNT = 2_000
CONTEXT = RequestContext(RequestHeader(43, 2, 1), "PLAINTEXT", "h")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)


def handler_at(controller: Any, cache: Any) -> ElectLeadersHandler:
    reaper: Reaper[Any] = Reaper(ManualClock(), Purgatory("ElectLeader"), "ElectLeader")
    return ElectLeadersHandler(LeaderElectionAdmin(controller, cache, reaper))


@pytest.mark.mission("SCALE-5")
@pytest.mark.parametrize("named", [1, 100_000 // 10])
def test_requests_may_name_every_partition(named: int) -> None:
    numbers = list(range(100_000 // named))
    topics = [ElectLeadersTopic(f"t-{n}", numbers) for n in range(named)]
    request = ElectLeadersRequest(1, topics)
    assert decode(ElectLeadersRequest, 2, encode(request, 2)) == request
    listed = ListPartitionReassignmentsRequest(
        topics=[ListReassignmentsTopic(f"t-{n}", numbers) for n in range(named)]
    )
    assert decode(ListPartitionReassignmentsRequest, 0, encode(listed, 0)) == listed


@pytest.mark.mission("SCALE-5")
@pytest.mark.parametrize("topics", [1, COUNT])
async def test_elections_of_many_partitions_are_served_in_slices(
    new_cluster: NewCluster, topics: int
) -> None:
    numbers = list(range(COUNT // topics))
    request = ElectLeadersRequest(0, [ElectLeadersTopic(f"t-{n}", numbers) for n in range(topics)])
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        handler = handler_at(cluster.active, cache_with())
        response, most = await most_calls_in_a_turn(handler(CONTEXT, request))
    results = [row for topic in response.replica_election_results for row in topic.partition_result]
    assert len(results) == COUNT
    assert {row.error_code for row in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert most < COUNT // 2


class Idle:
    """A controller that finds nothing to elect."""

    async def elect_leaders(self, partitions: Any, _: ElectionType) -> Any:
        return dict.fromkeys(partitions, KafkaError(ErrorCode.ELECTION_NOT_NEEDED))


@pytest.mark.mission("SCALE-5")
async def test_all_partitions_are_read_in_slices() -> None:
    cache = cache_with(update({"t": [partition_state(p, 1) for p in range(COUNT)]}))
    handler = handler_at(Idle(), cache)
    request = ElectLeadersRequest(0, None)
    response, most = await most_calls_in_a_turn(handler(CONTEXT, request))
    assert response.replica_election_results == []
    assert most < COUNT // 2


@pytest.mark.mission("SCALE-5")
async def test_the_leader_balance_of_many_partitions_is_looked_at_in_slices(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        for number in range(40):
            await cluster.create_topic(f"t{number}", *[(1,)] * 5)
        _, most = await most_calls_in_a_turn(cluster.active._elections.balance())
    assert most < 40 * 5


@pytest.mark.mission("SCALE-5")
async def test_reassignments_of_many_partitions_are_listed_in_slices(
    new_cluster: NewCluster,
) -> None:
    request = ListPartitionReassignmentsRequest(
        topics=[ListReassignmentsTopic(f"t-{n}", [0]) for n in range(COUNT)]
    )
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        handler = ListPartitionReassignmentsHandler(cluster.active)
        response, most = await most_calls_in_a_turn(handler(CONTEXT, request))
    assert response.topics == []
    assert most < COUNT // 2


class CountedTopics(dict[str, Any]):
    """The topics of an image, and how often one of them was looked up."""

    looks = 0

    def get(self, *args: Any) -> Any:
        self.looks += 1
        return super().get(*args)


@pytest.mark.mission("SCALE-5")
async def test_a_delayed_election_looks_once_at_changed_topics() -> None:
    """It is tried for each topic of an UpdateMetadata, of which there may be ten thousand."""
    cache = cache_with(update({f"t{n}": [partition_state(0, 1)] for n in range(10)}))
    leaders = {TopicPartition(f"t{n}", 0): 2 for n in range(10)}
    operation = DelayedElectLeader(1_000, leaders, cache)
    cache.update(update({f"t{n}": [partition_state(0, 2)] for n in range(9)}))
    counted = CountedTopics(cache.image.topics)
    cache.image = MetadataImage(cache.image.brokers, counted)
    for _ in range(10):
        assert not operation.try_complete()
    assert counted.looks == 10
    cache.update(update({"t0": [partition_state(0, 3)]}))  # it was seen with its leader before
    assert not operation.try_complete()
    cache.update(update({"t9": [partition_state(0, 2)]}))
    assert operation.try_complete()
    assert cast(Any, operation.ended.result()) == []
