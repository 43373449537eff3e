"""Reassignments that name thousands of partitions, which the controller handles in slices."""

from __future__ import annotations

import pytest

from minikafka.core.controller.reassignment import MAX_REPLICAS
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.server.broker.apis.cluster.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from minikafka.server.broker.apis.request import RequestContext
from tests.support.controller.controller_lab import NewCluster
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element

COUNT = 2_000
CONTEXT = RequestContext(RequestHeader(45, 0, 1), "PLAINTEXT", "h")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)


@pytest.mark.mission("SAFE-37")
@pytest.mark.parametrize("topics", [1, COUNT])
async def test_partitions_that_do_not_exist_are_refused_in_slices(
    new_cluster: NewCluster, topics: int
) -> None:
    rows = [ReassignablePartition(number, [1]) for number in range(COUNT // topics)]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(f"unknown-{number}", rows) for number in range(topics)]
    )
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        handler = AlterPartitionReassignmentsHandler(cluster.active)
        response, most = await most_calls_in_a_turn(handler(CONTEXT, request))
    assert [topic.name for topic in response.responses] == [t.name for t in request.topics]
    results = [row for topic in response.responses for row in topic.partitions]
    assert len(results) == COUNT
    assert {row.error_code for row in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert most < COUNT // 2


@pytest.mark.mission("SAFE-37")
async def test_other_tasks_run_while_many_reassignments_are_logged(
    new_cluster: NewCluster,
) -> None:
    """Cancelling and restarting a step of many partitions is one event of the controller."""
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        partitions = [TopicPartition("t", number) for number in range(40)]
        await cluster.create_topic("t", *[(1,)] * len(partitions))
        steps = cluster.active._reassignments
        _, most = await most_calls_in_a_turn(steps._log_step(1, partitions))
        _, most_of_five = await most_calls_in_a_turn(steps._log_step(1, partitions[:5]))
        assert most < 2 * most_of_five
        moved = await cluster.active.alter_partition_reassignments(
            dict.fromkeys(reversed(partitions), (2,))
        )
        assert set(moved.values()) == {None}
        assert cluster.active.context.partitions_being_reassigned == set(partitions)


@pytest.mark.mission("SAFE-37")
async def test_more_replicas_than_any_partition_has_are_not_compared(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        many = (1,) * (MAX_REPLICAS + 1)
        refused = (await cluster.active.alter_partition_reassignments({tp: many}))[tp]
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert refused.message == "1001 replicas; a partition may have at most 1000."
