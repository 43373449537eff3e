"""What a page sees of a controller at work."""

from __future__ import annotations

import pytest

from minikafka.core.controller import events
from minikafka.core.controller.reassignment import STEPS
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.server.controller.reassignment import MAX_ORDERED
from minikafka.server.controller.topic_deletion import MAX_COUNTED
from minikafka.server.zookeeper.measured_requests import MAX_MULTIS, MAX_PATHS
from tests.support.controller.controller_lab import NewCluster
from tests.support.controller.reassigning import catch_up, delete, move

QUIET = {"auto_leader_rebalance_enable": False}


@pytest.mark.mission("GLASS-51")
async def test_a_reassignment_is_shown_with_its_last_step(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, *_) = await cluster.start(7, 1, 2, 3)
        partitions = await cluster.create_topic("t", (1, 2), (1, 2))
        await move(cluster, {partitions[1]: (1, 3)})
        assert controller.facts(10)["reassignments"] == [
            {
                "partition": "t-1",
                "replicas": [1, 3, 2],
                "adding": [3],
                "removing": [2],
                "isr": [1, 2],
                "step": 3,
                "step_name": "new replicas started",
                "steps": 12,
            }
        ]
        assert controller.facts(0)["reassignments"] == []
        await catch_up(cluster, partitions[1])
        assert controller.facts(10)["reassignments"] == []
        assert controller._reassignments._steps == {}
        assert len(STEPS) == 13


@pytest.mark.mission("GLASS-51")
async def test_a_deletion_that_waits_for_a_broker_is_shown(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, *_) = await cluster.start(7, 1, 2)
        await cluster.create_topic("t", (1, 2))
        assert controller.facts(10)["deletions"] == []
        await cluster.kill(2)
        cluster.brokers.down.add(2)
        await cluster.settle()
        await delete(cluster, "t")
        (deletion,) = controller.facts(10)["deletions"]
        assert (deletion["topic"], deletion["started"], deletion["halted"]) == ("t", True, True)
        assert deletion["replicas"] == {
            "OfflineReplica": 1,
            "ReplicaDeletionSuccessful": 1,
        }
        assert deletion["all_counted"]


@pytest.mark.mission("GLASS-51")
async def test_a_look_counts_a_bounded_number_of_replicas(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        context = controller.context
        partitions = [TopicPartition(f"t{i % 30:02}", i) for i in range(30 * 40)]
        for partition in partitions:
            context.set_assignment(partition, ReplicaAssignment((1, 2, 3)))
        context.topics_to_be_deleted.update(partition.topic for partition in partitions)
        context.partitions_being_reassigned.update(partitions)
        facts = controller.facts(20)
        counts = [sum(each["replicas"].values()) for each in facts["deletions"]]
        assert counts == [120] * 8 + [MAX_COUNTED - 8 * 120] + [0] * 11
        assert [each["all_counted"] for each in facts["deletions"]] == [True] * 8 + [False] * 12
        assert len(partitions) > MAX_ORDERED
        shown = [each["partition"] for each in facts["reassignments"]]
        assert len(set(shown)) == 20
        context.partitions_being_reassigned.difference_update(partitions[20:])
        shown = [each["partition"] for each in controller.facts(3)["reassignments"]]
        assert shown == ["t00-0", "t01-1", "t02-2"]


@pytest.mark.mission("GLASS-51")
async def test_multis_of_the_controller_are_shown_newest_first(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        election, first = controller.facts(10)["multis"][-2:]
        assert first["paths"] == ["/controller_epoch"]  # which no earlier controller has created
        assert election["paths"] == ["/controller", "/controller_epoch"]
        await cluster.create_topic("t", *[(1, 2)] * 9)
        (last, *_) = controller.facts(10)["multis"]
        assert (last["operations"], last["error"]) == (9, None)
        assert last["paths"] == [
            f"/brokers/topics/t/partitions/{n}/state" for n in range(MAX_PATHS)
        ]
        for number in range(MAX_MULTIS):
            await cluster.create_topic(f"u{number}", (1,))
        multis = controller.facts(10)["multis"]
        assert len(multis) == MAX_MULTIS
        assert multis[0]["paths"][-1] == f"/brokers/topics/u{MAX_MULTIS - 1}/partitions/0/state"


@pytest.mark.mission("GLASS-51")
async def test_a_multi_of_a_controller_that_was_replaced_has_failed(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        cluster.zookeeper.set("/controller_epoch", b"99")
        await cluster.create_topic("u", (1, 2))
        errors = [multi["error"] for multi in controller.facts(10)["multis"]]
        assert "BadVersion" in errors


@pytest.mark.mission("GLASS-51")
async def test_the_queue_is_shown_by_kind_and_the_event_under_way(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        assert controller.facts(10)["handling"] is None
        seen = []
        listed = controller.list_partition_reassignments(None)
        for event in (events.TopicChange(), events.TopicChange(), events.BrokerChange()):
            controller.queue.put(event)
        assert controller.facts(10)["queued"] == {"TopicChange": 2, "BrokerChange": 1}
        handle = controller._handle

        async def noted(event: events.ControllerEvent) -> object:
            seen.append(controller.facts(10)["handling"])
            return await handle(event)

        controller._handle = noted  # type: ignore[method-assign]
        assert await listed == {}
        assert {"TopicChange", "ListPartitionReassignments"} <= {each["event"] for each in seen}
        assert seen[0]["state"] == "TOPIC_CHANGE"
        assert seen[0]["since_ms"] == cluster.clock.wall_ms()
        await cluster.settle()
        assert controller.facts(10)["handling"] is None
        assert controller.facts(10)["queued"] == {}
        assert TopicPartition("t", 0) not in controller.context.leadership
