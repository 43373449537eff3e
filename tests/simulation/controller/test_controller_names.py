"""Kafka's names in a running cluster: its threads, and the fields of the controller's context."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from minikafka.client import Admin, Producer
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from minikafka.world.sim.world import SimHost
from tests.simulation.test_debug_listener import SETTINGS, ask, start

PURGATORIES = (
    "Produce",
    "Fetch",
    "DeleteRecords",
    "ElectLeader",
    "topic",
    "Heartbeat",
    "Rebalance",
    "ShareFetch",
    "Events",
)
REBALANCE = "auto-leader-rebalance-task"
SHUTDOWN = "kafka-shutdown-hook"


def task_names(host: SimHost) -> Counter[str]:
    """How many tasks of each name the host runs."""
    return Counter(task.get_name() for task in host._process._tasks if not task.done())


def senders() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "Sender"]


async def start_topic(cluster: SimCluster, name: str) -> None:
    await start(cluster)
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        created = await admin.create_topics([NewTopic(name, 3, 3, {}, {})])
        assert not isinstance(created[name], Exception)
    await cluster.until_whole(*(TopicPartition(name, p) for p in range(3)))


@pytest.mark.mission("OPS-2", "CDU-10")
def test_tasks_are_named_as_kafkas_threads() -> None:
    async def play(cluster: SimCluster) -> None:
        await start_topic(cluster, "named")
        controller = cluster.controller_id()
        assert controller is not None
        for broker_id in cluster.broker_ids:
            names = task_names(cluster.host(broker_id))
            assert names["ControllerEventThread"] == 1
            in_office = broker_id == controller
            assert names[REBALANCE] == in_office
            threads = {f"Controller-{controller}-to-broker-{b}-send-thread" for b in (1, 2, 3)}
            assert {name for name in names if name.endswith("-send-thread")} == (
                threads if in_office else set()
            )
            assert not [name for name in names if name.startswith("task-")], "a task has no name"
            shown = await ask(cluster, broker_id, "/tasks.json?limit=1000")
            reapers = {row["name"] for row in shown["reapers"]}
            assert reapers == {f"ExpirationReaper-{broker_id}-{name}" for name in PURGATORIES}
        await cluster.host(controller).kill()
        survivors = [b for b in cluster.broker_ids if b != controller]
        await cluster.until("another controller", lambda: cluster.controller_id() in survivors)
        await cluster.until(
            "one rebalance task",
            lambda: sum(task_names(cluster.host(b))[REBALANCE] for b in survivors) == 1,
        )

    SimCluster(21, settings=SETTINGS).run(play)


@pytest.mark.mission("OPS-2")
def test_a_producer_sends_in_a_task_named_sender() -> None:
    async def play(cluster: SimCluster) -> None:
        await start_topic(cluster, "named")
        assert not senders()
        async with Producer(cluster.client_host.world, cluster.client_config) as producer:
            await producer.send("named", b"value")
            assert len(senders()) == 1
        assert not senders()

    SimCluster(22).run(play)


@pytest.mark.mission("OPS-2", "CSH-2")
def test_a_broker_hands_over_in_its_shutdown_hook() -> None:
    async def play(cluster: SimCluster) -> None:
        await start_topic(cluster, "named")
        ran_in: list[tuple[str, str]] = []

        def observe(event: LogEvent) -> None:
            if event.facts.get("component") == SHUTDOWN:
                task = asyncio.current_task()
                ran_in.append((event.name, task.get_name() if task is not None else "none"))

        cluster.observers.append(observe)
        await cluster.stop(2)
        assert ("controlled_shutdown_succeeded", SHUTDOWN) in ran_in

    SimCluster(23).run(play)


@pytest.mark.mission("CTX-2", "CTX-1")
def test_the_controller_context_over_http_matches_zookeeper() -> None:
    async def play(cluster: SimCluster) -> None:
        await start_topic(cluster, "shown")
        controller = cluster.controller_id()
        assert controller is not None
        shown = await ask(cluster, controller, "/controller-context.json?limit=1000")
        context = shown["context"]
        assert shown["broker"] == controller
        assert context["allTopics"] == ["shown"]
        assert context["liveBrokerIdsUnderlying"] == [1, 2, 3]
        for partition in range(3):
            tp = TopicPartition("shown", partition)
            known, state = context["partitionLeadershipInfo"][str(tp)], cluster.state(tp)
            assert known["controller_epoch"] == state.controller_epoch == context["epoch"]
            leader = state.leader_and_isr
            assert known["leader_and_isr"]["leader"] == leader.leader
            assert tuple(known["leader_and_isr"]["isr"]) == leader.isr
            assert context["partitionStates"][str(tp)] == "OnlinePartition"
        assert [row["broker"] for row in context["controllerChannelManager"]] == [1, 2, 3]
        assert context["correlationId"] > 0
        assert context["controllerLock"] == {"heldBy": None, "waiting": 0}
        assert context["brokerShutdownLock"] == {"heldBy": None, "waiting": 0}
        one = (await ask(cluster, controller, "/controller-context.json?limit=1"))["context"]
        assert list(one["partitionLeadershipInfo"]) == ["shown-0"]
        assert "up to 1000" in (await ask(cluster, 1, "/controller-context.json?limit=-1"))["error"]

    SimCluster(24, settings=SETTINGS).run(play)
