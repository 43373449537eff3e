"""The page of a simulated cluster: what it says while the controller dies and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.client.consumer.share_consumer import ShareConsumer, ShareConsumerConfig
from minikafka.core.config_resources import ResourceType
from minikafka.page.dashboard.follow import STOP_AFTER_MS
from minikafka.page.dashboard.stage import Stage
from minikafka.testing.simulator.cluster import SimCluster
from scripts.lib.recordings import (
    DEBUG_PORT,
    GROUP,
    SETTINGS,
    TOPIC,
    TRANSACTIONAL_ID,
    failover,
    followed,
)

SEED = 21


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return failover(SEED)


@pytest.fixture(scope="module")
def slow_messages() -> list[dict[str, Any]]:
    """Of a cluster that waits for the end of the session, as Kafka does."""
    recorded = failover(SEED, SETTINGS | {"minikafka.fast.failover": "false"})
    return [json.loads(line) for line in recorded]


@pytest.fixture
def messages(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def changes(
    messages: list[dict[str, Any]], broker: int | None, kind: str, name: str = ""
) -> Iterator[dict[str, Any]]:
    """The facts of an entity, in order."""
    for message in messages:
        if message["type"] == "state" and message["broker"] == broker:
            for row in message["changed"]:
                if (row["kind"], row["name"]) == (kind, name):
                    yield row["facts"]


def without_repeats(values: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not found or found[-1] != value:
            found.append(value)
    return found


@pytest.mark.mission("GLASS-11")
def test_the_same_seed_makes_the_same_recording(lines: list[str]) -> None:
    assert failover(SEED) == lines
    assert json.loads(lines[0])["type"] == "hello"
    assert json.loads(lines[0])["live"] is False


@pytest.mark.mission("GLASS-11")
def test_a_broker_that_dies_and_comes_back_is_followed_again(
    messages: list[dict[str, Any]],
) -> None:
    (killed,) = [
        broker
        for broker in (1, 2, 3)
        if any(not facts["debug"] for facts in changes(messages, broker, "reachable"))
    ]
    reachable = without_repeats(f["debug"] for f in changes(messages, killed, "reachable"))
    assert reachable == [True, False, True]
    lost = next(f for f in changes(messages, killed, "reachable") if not f["debug"])
    assert f"broker {killed} is lost" in lost["reason"]
    online = without_repeats(f["online"] for f in changes(messages, None, "node", str(killed)))
    assert online == [True, False, True]
    removed = [
        {row["kind"] for row in message["removed"]}
        for message in messages
        if message["type"] == "state" and message["broker"] == killed and message["removed"]
    ]
    assert any({"broker", "partition", "purgatory", "controller"} <= kinds for kinds in removed)
    found = [each["facts"] for each in messages if each.get("name") == "broker_found_gone"]
    assert [facts["gone_broker"] for facts in found] == [killed]
    starts = [
        message["number"]
        for message in messages
        if message["type"] == "event"
        and (message["broker"], message["name"]) == (killed, "broker_started")
    ]
    assert len(starts) == 2  # before and after


@pytest.mark.mission("GLASS-12")
def test_the_protocol_tells_the_move_of_the_controller_and_the_lagging_replicas(
    slow_messages: list[dict[str, Any]],
) -> None:
    cluster = list(changes(slow_messages, None, "cluster"))
    assert len(without_repeats(facts["controller"] for facts in cluster)) == 2
    assert max(facts["under_replicated"] for facts in cluster) > 0
    assert cluster[-1]["under_replicated"] == cluster[-1]["offline"] == 0
    assert any(facts["errors"] for facts in cluster)  # while it was dead and still registered
    assert cluster[-1]["errors"] == []
    topic = list(changes(slow_messages, None, "topic", TOPIC))
    ends = [row["high_watermark"] for row in topic[-1]["partitions"]]
    assert all(end > 20 for end in ends)
    assert {len(row["isr"]) for facts in topic for row in facts["partitions"]} >= {2, 3}


@pytest.mark.mission("GLASS-12")
def test_the_protocol_tells_groups_with_their_lag_and_transactions(
    slow_messages: list[dict[str, Any]],
) -> None:
    group = list(changes(slow_messages, None, "consumer_group", GROUP))
    with_members = [facts for facts in group if len(facts["members"]) == 2]
    assert with_members
    assigned = [member["assignment"] for member in with_members[-1]["members"]]
    assert sorted(p for each in assigned for p in each.get(TOPIC, ())) == [0, 1, 2]
    lags = [row["lag"] for facts in group for row in facts["offsets"]]
    assert None in lags  # while a partition has no leader
    assert any(lags)
    assert all(row["lag"] is not None for row in group[-1]["offsets"])
    states = [facts["state"] for facts in changes(slow_messages, None, "txn", TRANSACTIONAL_ID)]
    assert "Ongoing" in states
    assert states[-1] == "CompleteAbort"


def test_the_inside_of_every_broker_is_shown(messages: list[dict[str, Any]]) -> None:
    kinds = {
        (message["broker"], row["kind"])
        for message in messages
        if message["type"] == "state"
        for row in message["changed"]
    }
    for broker in (1, 2, 3):
        of_broker = {kind for shown_by, kind in kinds if shown_by == broker}
        assert {"broker", "controller", "partition", "purgatory", "session"} <= of_broker


@pytest.mark.mission("GLASS-13")
def test_brokers_are_left_alone_without_readers() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        network = cluster.host(1).world.network
        connect, connects = network.connect, 0

        async def counted(*args: Any, **keywords: Any) -> Any:
            nonlocal connects
            connects += args[2] == DEBUG_PORT
            return await connect(*args, **keywords)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(network, "connect", counted)
            async with AsyncExitStack() as stack:
                broadcast = await followed(cluster, stack)
                for _ in range(2):
                    before = connects
                    await asyncio.sleep(20)
                    assert connects == before
                    with broadcast.reading():
                        await asyncio.sleep(2)
                    assert connects > before
                    await asyncio.sleep(STOP_AFTER_MS / 1000 + 1)

    SimCluster(3, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-13")
def test_a_snapshot_is_of_now_after_brokers_were_left_alone() -> None:
    """A reader who takes one snapshot is there for a moment only."""

    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        async with AsyncExitStack() as stack:
            broadcast = await followed(cluster, stack)
            await broadcast.snapshot()
            await asyncio.sleep(STOP_AFTER_MS / 1000 + 1)
            victim = next(each for each in cluster.broker_ids if each != cluster.controller_id())
            await cluster.host(victim).kill()
            await cluster.until("one less", lambda: len(cluster.nodes()) == 2)
            await asyncio.sleep(5)
            (online,) = changes(await broadcast.snapshot(), None, "node", str(victim))
            assert not online["online"]

    SimCluster(5, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-15")
def test_offsets_that_leaders_show_inside_are_not_requested() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TOPIC, 3, 3)
            await admin.wait_for_topic(TOPIC, 3)
        async with AsyncExitStack() as stack:
            broadcast = await followed(cluster, stack)
            stack.enter_context(broadcast.reading())
            await asyncio.sleep(5)
            before = _list_offsets(broadcast.stage)
            async with Producer(world, config) as producer:
                for partition in range(3):
                    await producer.send_and_wait(TOPIC, b"order", partition=partition)
            await asyncio.sleep(10)
            rows = broadcast.stage.entities(None)["topic", TOPIC]["partitions"]
            assert [row["high_watermark"] for row in rows] == [1, 1, 1]
            assert _list_offsets(broadcast.stage) == before

    SimCluster(3, settings=SETTINGS).run(play)


def _list_offsets(stage: Stage) -> int:
    """How many ListOffsets requests the brokers have had."""
    key = ("request", "ListOffsets")
    found = [stage.entities(broker).get(key, {"count": 0})["count"] for broker in (1, 2, 3)]
    return sum(found)


@pytest.mark.mission("G848-13")
def test_a_consumer_group_is_shown_with_its_epochs() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TOPIC, 2, 3)
            await admin.wait_for_topic(TOPIC, 2)
        member = ConsumerConfig(group_id="g", group_protocol="consumer")
        consumer = Consumer(world, config, member)
        async with AsyncExitStack() as stack, consumer:
            broadcast = await followed(cluster, stack)
            stack.enter_context(broadcast.reading())
            consumer.subscribe([TOPIC])
            for _ in range(30):
                await consumer.poll(timeout_ms=1_000)
            group = broadcast.stage.entities(None)["consumer_group", "g"]
            shown = (group["type"], group["state"], group["epoch"], group["target_epoch"])
            assert shown == ("consumer", "Stable", 1, 1)
            (row,) = group["members"]
            assert row["epoch"] == 1
            assert row["assignment"] == row["target_assignment"] == {TOPIC: [0, 1]}

    SimCluster(5, settings=SETTINGS).run(play)


@pytest.mark.mission("SHR-21")
def test_a_share_group_is_shown_with_its_share_partitions() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TOPIC, 1, 3)
            await admin.wait_for_topic(TOPIC, 1)
            earliest = {"share.auto.offset.reset": "earliest"}
            await admin.alter_configs(ResourceType.GROUP, "s", earliest)
        async with Producer(world, config, ProducerConfig()) as producer:
            for _ in range(4):
                await producer.send(TOPIC, b"x")
        settings = ShareConsumerConfig(group_id="s", share_acknowledgement_mode="explicit")
        shares = ShareConsumer(world, config, settings)
        async with AsyncExitStack() as stack, shares:
            broadcast = await followed(cluster, stack)
            stack.enter_context(broadcast.reading())
            shares.subscribe([TOPIC])
            while not (records := await shares.poll(timeout_ms=1_000)):
                pass
            shares.acknowledge(records[0])
            await shares.commit()
            await world.clock.sleep(3_000)
            group = broadcast.stage.entities(None)["consumer_group", "s"]
            shown = (group["type"], group["state"], group["epoch"], group["lag"])
            assert shown == ("share", "Stable", 2, 3)
            (member,) = group["members"]
            assert (member["epoch"], member["assignment"]) == (2, {TOPIC: [0]})
            (row,) = group["share_partitions"]
            assert (row["start_offset"], row["lag"]) == (0, 3)  # as it was written
            inside = broadcast.stage.entities(row["leader"])["share_partition", f"s:{TOPIC}-0"]
            assert (inside["start_offset"], inside["lag"]) == (1, 3)
            assert inside["records"]["acquired"] == 3
            assert inside["runs"][0]["member"] == member["member_id"]

    SimCluster(5, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-11")
def test_an_event_ends_the_rest_between_looks() -> None:
    """At rest a look is a second after the one before."""

    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        async with AsyncExitStack() as stack:
            broadcast = await followed(cluster, stack)
            stack.enter_context(broadcast.reading())
            await asyncio.sleep(20)
            async with Admin(cluster.client_host.world, cluster.client_config) as admin:
                await admin.create_topic(TOPIC, 1, 3)
            await asyncio.sleep(0.4)
            shown = [("partition", f"{TOPIC}-0") in broadcast.stage.entities(b) for b in (1, 2, 3)]
            assert shown == [True, True, True]

    for seed in range(3):  # in each the brokers rest at another time
        SimCluster(seed, settings=SETTINGS).run(play)
