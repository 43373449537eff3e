"""What a simulated cluster shows on its brokers' debug listeners."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer
from minikafka.core.client_quota import ANY
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.node import partition_facts
from minikafka.server.node.state_facts import WATCHED_MS
from minikafka.testing.simulator.cluster import SimCluster, host_name
from tests.support.network.http_lab import PORT, get, responses
from tests.support.network.wire_end import WireEnd

SETTINGS = {"debug.listener": f"HTTP://127.0.0.1:{PORT}"}
TP = TopicPartition("shown", 0)


async def ask(cluster: SimCluster, broker_id: int, path: str) -> Any:
    """As a process on that broker's host."""
    network = cluster.host(broker_id).world.network
    _, end = await network.connect(lambda: WireEnd(half_open=True), "127.0.0.1", PORT)
    assert isinstance(end, WireEnd)
    end.transport.write(get(path, "Connection: close"))
    await end.eof.wait()
    end.transport.close()
    (response,) = responses(end.seen)
    return response.json


async def start(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == 3)


async def purgatories(cluster: SimCluster, broker_id: int, query: str = "") -> dict[str, Any]:
    shown = await ask(cluster, broker_id, f"/purgatories.json{query}")
    assert shown["broker"] == broker_id
    return {row["name"]: row for row in shown["purgatories"]}


@pytest.mark.mission("PUR-3", "PUR-6", "PUR-7", "TW-3")
def test_every_purgatory_is_shown_with_its_reaper_and_wheels() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        for broker_id in cluster.broker_ids:
            shown = await purgatories(cluster, broker_id)
            assert {"Produce", "Fetch", "topic"} <= set(shown)
            for name, row in shown.items():
                assert row["reaper"] == f"ExpirationReaper-{broker_id}-{name}"
                assert row["wheels"][0]["level"] == 1
                for wheel in row["wheels"]:
                    assert wheel["interval_ms"] == wheel["tick_ms"] * wheel["wheel_size"]

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("PUR-3", "R-11")
def test_no_reaper_of_a_broker_is_left_out() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start(1)
        await cluster.until("up", lambda: 1 in cluster.nodes())
        clock = cluster.host(1).world.clock
        there = [o for o in gc.get_objects() if isinstance(o, Reaper) and o._clock is clock]
        shown = await purgatories(cluster, 1)
        assert sorted(reaper.name for reaper in there) == sorted(
            r["reaper"] for r in shown.values()
        )
        of_groups = {"Heartbeat", "Rebalance"}
        assert set(shown) >= {"Produce", "Fetch", "DeleteRecords", "topic"} | of_groups

    SimCluster(8, broker_ids=(1,), settings=SETTINGS).run(play)


def test_every_kind_of_delayed_operation_shows_its_watched_keys() -> None:
    kinds = [k for k in DelayedOperation.__subclasses__() if k.__module__.startswith("minikafka.")]
    assert len(kinds) >= 5
    silent = [k for k in kinds if k.watched_keys is DelayedOperation.watched_keys]
    assert silent == []


@pytest.mark.mission("PUR-6")
def test_parked_operations_are_shown_in_their_purgatory() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        config = cluster.client_config
        async with Admin(cluster.client_host.world, config) as admin:
            await admin.create_topic(TP.topic, 1, 3, {"min.insync.replicas": "2"})
            await admin.wait_for_topic(TP.topic)
        await cluster.until_whole(TP)
        leader = cluster.leader(TP)
        first, second = [i for i in cluster.broker_ids if i != leader]
        # A follower whose last fetch has just expired is on its way here with the next one.
        while (fetches := (await purgatories(cluster, leader))["Fetch"])["purgatory_size"] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert [op["keys"] for op in fetches["operations"]] == [["shown-0"]] * 2
        assert all(op["kind"] == "DelayedFetch" for op in fetches["operations"])
        assert all(op["delay_ms"] == 500 for op in fetches["operations"])
        assert all(op["age_ms"] + op["remaining_ms"] == 500 for op in fetches["operations"])
        assert (fetches["num_delayed_operations"], fetches["purgatory_size"]) == (2, 2)
        assert 0 < fetches["next_wake_up_in_ms"] <= 500

        async with Producer(cluster.client_host.world, config) as producer:
            # It gets its producer id, which the brokers get from the controller.
            await producer.send_and_wait(TP.topic, b"first", partition=0)
            for follower in (first, second):
                cluster.simulation.partition(cluster.host(follower).name, cluster.host(leader).name)
            sent = asyncio.ensure_future(producer.send(TP.topic, b"value", partition=0))
            await asyncio.sleep(2)
            produces = (await purgatories(cluster, leader))["Produce"]
            (operation,) = produces["operations"]
            assert operation["kind"] == "DelayedProduce"
            assert operation["keys"] == ["shown-0"]
            assert 1_900 < operation["age_ms"] <= 2_000
            assert operation["age_ms"] + operation["remaining_ms"] == operation["delay_ms"]
            tasks = [b["tasks"] for wheel in produces["wheels"] for b in wheel["buckets"]]
            assert tasks == [1]
            assert not (await purgatories(cluster, leader, "?limit=0"))["Produce"]["operations"]
            cluster.simulation.heal()
            await sent
        assert (await purgatories(cluster, leader))["Produce"]["operations"] == []

    SimCluster(2, settings=SETTINGS).run(play)


def test_metrics_are_named_as_in_kafka() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        shown = (await ask(cluster, 1, "/metrics.json"))["metrics"]
        for name in ("Produce", "Fetch", "topic"):
            assert (
                shown[
                    f"kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation={name}"
                ]
                == 0
            )
            assert (
                shown[
                    f"kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation={name}"
                ]
                == 0
            )
        assert shown["kafka.server:type=ReplicaManager,name=PartitionCount"] == 0
        assert json.dumps(shown, allow_nan=False)

    SimCluster(3, settings=SETTINGS).run(play)


@pytest.mark.mission("OPS-2")
def test_tasks_and_reapers_carry_kafkas_names() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        shown = await ask(cluster, 2, "/tasks.json?limit=1000")
        names = {row["name"] for row in shown["tasks"]}
        assert {"ControllerEventThread", "highwatermark-checkpoint"} <= names
        reapers = {row["name"] for row in shown["reapers"]}
        assert {f"ExpirationReaper-2-{name}" for name in ("Produce", "Fetch", "topic")} <= reapers
        assert shown["num_tasks"] == sum(row["count"] for row in shown["tasks"])

    SimCluster(4, settings=SETTINGS).run(play)


@pytest.mark.parametrize("query", ["?limit=-1", "?limit=x", "?limit=1001", "?limit=" + "9" * 5000])
def test_an_invalid_limit_is_refused(query: str) -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        assert "up to 1000" in (await ask(cluster, 1, "/purgatories.json" + query))["error"]

    SimCluster(5, settings=SETTINGS).run(play)


def test_without_the_setting_nothing_listens() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        with pytest.raises(ConnectionRefusedError):
            await ask(cluster, 1, "/metrics.json")

    SimCluster(6).run(play)


def test_it_is_closed_when_the_broker_stops_and_open_when_it_is_back() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        await cluster.stop(3)
        await cluster.bring_up(3)
        assert (await ask(cluster, 3, "/metrics.json"))["broker"] == 3

    SimCluster(7, settings=SETTINGS).run(play)


def test_a_broker_tells_its_debug_listener_in_describe_configs() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            for broker_id in cluster.broker_ids:
                configs = await admin.broker_configs(broker_id, ["debug.listener", "broker.id"])
                assert configs == SETTINGS | {"broker.id": str(broker_id)}
            with pytest.raises(KafkaError, match="no broker 4, there are 1, 2, 3") as refused:
                await admin.broker_configs(4, ["debug.listener"])
            assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    SimCluster(9, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-8")
def test_a_reader_follows_the_events_of_a_broker() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        first = await ask(cluster, 1, "/events.json?limit=1000")
        names = [event["name"] for event in first["events"]]
        assert {"session_opened", "broker_registered", "broker_started"} <= set(names)
        assert [event["number"] for event in first["events"]] == list(range(1, len(names) + 1))
        assert (first["missed"], first["last"]) == (0, len(names))

        path = f"/events.json?since={len(names)}&wait=9000"
        waiting = asyncio.ensure_future(ask(cluster, 1, path))
        await asyncio.sleep(1)
        assert not waiting.done()
        (operation,) = (await purgatories(cluster, 1))["Events"]["operations"]
        assert (operation["kind"], operation["keys"]) == ("DelayedEvents", ["events"])
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TP.topic, 1, 3)
        then = await waiting
        assert then["events"][0]["number"] == len(names) + 1
        assert then["last"] > len(names)

        again = await ask(cluster, 1, f"/events.json?since={2**50}&wait=2000&limit=1")
        assert [event["number"] for event in again["events"]] == [1]
        assert (await ask(cluster, 1, "/events.json?limit=0"))["last"] == 0
        for query in ("since=x", "wait=20001", "since=-1", "since=%C2%B2"):
            assert "error" in await ask(cluster, 1, f"/events.json?{query}")

    SimCluster(9, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-9")
def test_the_state_of_a_broker_is_followed_change_by_change() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TP.topic, 1, 3)
            await admin.wait_for_topic(TP.topic)
        await cluster.until_whole(TP)
        leader = cluster.leader(TP)
        follower = next(i for i in cluster.broker_ids if i != leader)
        await asyncio.sleep(2)  # until both followers fetch in sessions
        everything = await ask(cluster, leader, "/state.json")
        assert everything["reset"]
        known = {(each["kind"], each["name"]): each["facts"] for each in everything["changed"]}
        assert {kind for kind, _ in known} >= {"broker", "controller", "partition", "purgatory"}
        assert known["broker", ""]["state"] == "RUNNING"
        partition = known["partition", "shown-0"]
        assert (partition["is_leader"], partition["log_end_offset"]) == (True, 0)
        assert sorted(partition["isr"]) == [1, 2, 3]
        assert ("session", str(known_session(known))) in known

        async with Producer(world, config) as producer:
            await producer.send_and_wait(TP.topic, b"value", partition=0)
        await asyncio.sleep(2)
        then = await ask(cluster, leader, f"/state.json?since={everything['last']}")
        assert not then["reset"]
        changed = {(each["kind"], each["name"]): each["facts"] for each in then["changed"]}
        assert changed["partition", "shown-0"]["high_watermark"] == 1
        assert set(changed["partition", "shown-0"]["followers"].values()) == {1}
        assert ("controller", "") not in changed or leader == cluster.controller_id()
        of_follower = await ask(cluster, follower, "/state.json")
        controller_id = cluster.controller_id()
        assert controller_id is not None
        controller = (await state(cluster, controller_id))["controller", ""]
        assert (controller["handling"], controller["queued"]) == (None, {})
        states = [p for multi in controller["multis"] for p in multi["paths"]]
        assert f"/brokers/topics/{TP.topic}/partitions/0/state" in states
        shown = await ask(cluster, leader, "/state-machines.json")
        assert {"before": "NewPartition", "after": "OnlinePartition"} in shown["machines"][
            "partition"
        ]["transitions"]
        (copy,) = [e["facts"] for e in of_follower["changed"] if e["name"] == "shown-0"]
        assert (copy["is_leader"], copy["fetched_from"], copy["lag"]) == (False, leader, 0)

        async with Admin(world, config) as admin:
            await admin.delete_topic(TP.topic)
        await asyncio.sleep(5)
        gone = await ask(cluster, leader, f"/state.json?since={then['last']}")
        assert {"kind": "partition", "name": "shown-0"} in gone["removed"]

    SimCluster(10, settings=SETTINGS).run(play)


def known_session(known: dict[tuple[str, str], Any]) -> int:
    """Return the id of a follower's session of Fetch."""
    sessions = [facts for (kind, _), facts in known.items() if kind == "session"]
    return int(next(facts["id"] for facts in sessions if facts["of_follower"]))


async def state(cluster: SimCluster, broker_id: int, query: str = "") -> dict[tuple[str, str], Any]:
    """Return the facts of all entities, or of those that ``query`` selects."""
    shown = await ask(cluster, broker_id, f"/state.json{query}")
    return {(each["kind"], each["name"]): each["facts"] for each in shown["changed"]}


@pytest.mark.mission("GLASS-50")
def test_a_page_sees_which_requests_are_slow() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TP.topic, 1, 3)
            await admin.wait_for_topic(TP.topic)
        await cluster.until_whole(TP)
        leader = cluster.leader(TP)
        assert (await state(cluster, leader))["requests", ""] == {"slowest": [], "last": []}
        async with Producer(world, config) as producer:
            await producer.send_and_wait(TP.topic, b"value", partition=0)
        await asyncio.sleep(1)
        known = await state(cluster, leader)
        produces = known["request", "Produce"]
        assert (produces["count"], produces["errors"]) == (1, {})
        assert produces["phases"]["remote"]["max_us"] > 0  # for the followers
        (slow,) = [e for e in known["requests", ""]["slowest"] if e["api"] == "Produce"]
        assert slow in known["requests", ""]["last"]
        assert (slow["total_us"], slow["client_id"]) == (
            produces["phases"]["total"]["max_us"],
            config.client_id,
        )
        assert ("request", "CreateTopics") in known or leader != cluster.controller_id()
        assert ("request", "DescribeAcls") not in known

    SimCluster(11, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-53")
def test_a_page_watches_topics_beyond_the_first_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_facts, "MAX_PARTITIONS", 6)
    monkeypatch.setattr(partition_facts, "COMPARED", 3)

    def partitions(known: dict[tuple[str, str], Any]) -> set[str]:
        return {name for kind, name in known if kind == "partition"}

    async def play(cluster: SimCluster) -> None:
        cluster.start(1)
        await cluster.until("up", lambda: 1 in cluster.nodes())
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            for topic in ("first", "second"):
                await admin.create_topic(topic, 5, 1)
                await admin.wait_for_topic(topic)
        first = {f"first-{number}" for number in range(5)}
        second = {f"second-{number}" for number in range(5)}
        assert len(partitions(await state(cluster, 1))) == 3  # in turns, if there are many
        await asyncio.sleep(1)
        assert partitions(await state(cluster, 1)) == first | {"second-0"}
        await asyncio.sleep(1)
        assert partitions(await state(cluster, 1, "?partitions=x,second")) >= second
        await asyncio.sleep(1)
        assert partitions(await state(cluster, 1)) == first | second
        # A watched partition is looked at each time.
        async with Producer(world, config) as producer:
            for number in range(3):
                await producer.send_and_wait("second", b"value", partition=4)
                await asyncio.sleep(1)
                known = await state(cluster, 1)
                assert known["partition", "second-4"]["log_end_offset"] == number + 1
        await asyncio.sleep(WATCHED_MS / 1000)
        await state(cluster, 1)
        await asyncio.sleep(1)
        assert partitions(await state(cluster, 1)) == first | {"second-0"}

    SimCluster(12, broker_ids=(1,), settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-55")
def test_a_page_can_explain_why_a_replica_left_the_isr() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TP.topic, 1, 3)
            await admin.wait_for_topic(TP.topic)
        await cluster.until_whole(TP)
        leader = cluster.leader(TP)
        await asyncio.sleep(1)
        before = (await state(cluster, leader))["partition", "shown-0"]
        assert before["caught_up_ms"] == {}
        assert before["leader_epoch_start"] == 0
        slow = next(i for i in cluster.broker_ids if i != leader)
        world = cluster.client_host.world
        cluster.simulation.clog(host_name(slow), host_name(leader))
        cut_ms = world.clock.wall_ms()
        async with Producer(world, cluster.client_config) as producer:
            await producer.send_and_wait(TP.topic, b"value", partition=0)
        await state(cluster, leader)
        await asyncio.sleep(1)
        facts = (await state(cluster, leader))["partition", "shown-0"]
        assert slow not in facts["isr"]
        assert list(facts["caught_up_ms"]) == [str(slow)]
        assert abs(facts["caught_up_ms"][str(slow)] - cut_ms) < 5_000

    SimCluster(13, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-56")
def test_a_page_sees_connections_and_the_quotas_in_force() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TP.topic, 1, 1)
            await admin.wait_for_topic(TP.topic)
            await cluster.until("led", lambda: cluster.leader(TP) in cluster.nodes())
            leader = cluster.leader(TP)
            (quotas,) = [await state(cluster, leader)]
            assert not quotas["throttle", "clients"]["enabled"]
            assert quotas["throttle", "replication"]["leader"] == {
                "limit": None,
                "rate": 0,
                "exceeded": False,
            }
            node = cluster.nodes()[leader]
            node.entities.client_quotas.set(None, ANY, {"producer_byte_rate": "1000"})
            node.entities.throttles.limit(7, None, None)
        async with Producer(world, config) as producer:
            await producer.send_and_wait(TP.topic, bytes(30_000), partition=0)
            await asyncio.sleep(1)
            known = await state(cluster, leader)
        throttle = known["throttle", "clients"]
        assert throttle["limits"] == [
            {
                "key": "producer_byte_rate",
                "user": "<default>",
                "client_id": None,
                "limit": 1000,
            }
        ]
        (account,) = throttle["accounts"]
        assert (account["user"], account["limit"]) == ("ANONYMOUS", 1000)
        assert account["used"] > 1000
        (muted,) = throttle["muted"]
        assert (throttle["num_muted"], muted["user"]) == (1, "ANONYMOUS")
        assert muted["until_ms"] > world.clock.wall_ms()
        assert known["throttle", "replication"]["leader"]["limit"] == 7
        connections = known["connections", ""]
        assert connections["listeners"] == {"PLAINTEXT": connections["total"]}
        assert connections["total"] > 0

    SimCluster(14, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-57")
def test_a_page_sees_members_with_their_deadlines() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TP.topic, 2, 3)
            await admin.wait_for_topic(TP.topic)
        async with Consumer(world, config, ConsumerConfig(group_id="g")) as consumer:
            consumer.subscribe([TP.topic])
            await consumer.poll(10_000)
            found = []
            for broker_id in cluster.broker_ids:
                known = await state(cluster, broker_id)
                found += [facts for (kind, _), facts in known.items() if kind == "group"]
                wheels = known["purgatory", "Heartbeat"]["wheels"]
                assert all(
                    w["current_slot"] == w["current_time_ms"] % w["interval_ms"] // w["tick_ms"]
                    for w in wheels
                )
            (group,) = found
            (member,) = group["members"]
            assert (group["phase"], group["phase_deadline_ms"]) == (None, None)
            left_ms = member["heartbeat_deadline_ms"] - world.clock.wall_ms()
            assert 0 < left_ms <= member["session_timeout_ms"]

    SimCluster(15, settings=SETTINGS).run(play)
