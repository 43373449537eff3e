"""Garbage in ZooKeeper is an error of its subject only; brokers go on, and start again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minikafka.client import Admin, Producer, ProducerConfig
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import NodeExists
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

BRACKETS = b"[" * 3000
HUGE = b"9" * 5000
GOOD = [TopicPartition("good", p) for p in range(3)]


def state(**other: Any) -> bytes:
    fields = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
    return json.dumps(fields | other).encode()


# The states of the partitions of the topic "bad", by partition.
STATES = [
    BRACKETS,
    HUGE,
    b"",
    state(controller_epoch=2**31 - 1),
    state(leader_epoch=2**31 - 1),
    state(leader_epoch=2**31 - 2),
    state(leader_epoch=-7),
    state(isr=[]),
    state(isr=[7, 8]),
    state(isr=[1, 1, 2]),
    state(isr=[-1]),
    state(leader=99),
    state(leader=-5),
    state(leader_recovery_state=77),
    state(controller_epoch=-1),
]
TOPIC = {"version": 3, "removing_replicas": {}, "adding_replicas": {}}
ASSIGNMENTS = {
    "brackets": BRACKETS,
    "empty": b"",
    "huge": HUGE,
    "none": json.dumps(TOPIC | {"partitions": {"0": []}}).encode(),
    "twice": json.dumps(TOPIC | {"partitions": {"0": [1, 1]}}).encode(),
    "strangers": json.dumps(TOPIC | {"partitions": {"0": [7, -8]}}).encode(),
    "gap": json.dumps(TOPIC | {"partitions": {"2000000000": [1]}}).encode(),
    "digits": json.dumps(TOPIC | {"partitions": {"9" * 5000: [1]}}).encode(),
    "negative": json.dumps(TOPIC | {"partitions": {"-1": [1]}}).encode(),
    "adding": json.dumps(
        TOPIC | {"partitions": {"0": [1]}, "adding_replicas": {"0": [9], "7": [1]}}
    ).encode(),
    "removing": json.dumps(
        TOPIC | {"partitions": {"0": [1]}, "removing_replicas": {"0": [1, 3]}}
    ).encode(),
    "two words": json.dumps(TOPIC | {"partitions": {"0": [1]}}).encode(),
    "\u00fcmlaut": json.dumps(TOPIC | {"partitions": {"0": [1]}}).encode(),
    "l" * 300: json.dumps(TOPIC | {"partitions": {"0": [1]}}).encode(),
}
BROKER = {"version": 5, "timestamp": "1", "jmx_port": -1, "features": {}}
OTHERS = {
    f"{paths.CONFIG}/topics/good": BRACKETS,
    f"{paths.CONFIG}/topics/bad": b'{"version":1,"config":{"retention.ms":[1]}}',
    f"{paths.CONFIG}/brokers/1": BRACKETS,
    f"{paths.CONFIG}/brokers/<default>": HUGE,
    f"{paths.CONFIG}/clients/c": BRACKETS,
    f"{paths.CONFIG_CHANGES}/config_change_9999999990": BRACKETS,
    f"{paths.CONFIG_CHANGES}/config_change_9999999991": (
        b'{"version":2,"entity_path":"topics/../.."}'
    ),
    f"{paths.CONFIG_CHANGES}/config_change_9999999992": b'{"version":2,"entity_path":"topics/"}',
    f"{paths.CONFIG_CHANGES}/config_change_9999999993": b'{"version":2,"entity_path":"\\ud800"}',
    f"{paths.CONFIG_CHANGES}/config_change_9999999994": b'{"version":2,"entity_path":"brokers/1"}',
    f"{paths.CONFIG_CHANGES}/x": HUGE,
    f"{paths.ISR_CHANGES}/isr_change_9999999990": BRACKETS,
    f"{paths.ISR_CHANGES}/isr_change_x": (
        b'{"version":1,"partitions":[{"topic":"..","partition":0}]}'
    ),
    f"{paths.ISR_CHANGES}/stray": HUGE,
    f"{paths.LOG_DIR_EVENTS}/log_dir_event_9999999990": BRACKETS,
    f"{paths.LOG_DIR_EVENTS}/log_dir_event_x": b'{"version":1,"broker":99999999999,"event":1}',
    paths.REASSIGN_PARTITIONS: BRACKETS,
    paths.PREFERRED_REPLICA_ELECTION: BRACKETS,
    f"{paths.DELETE_TOPICS}/two words": b"",
    f"{paths.DELETE_TOPICS}/unknown": BRACKETS,
    f"{paths.BROKER_IDS}/77": BRACKETS,
    f"{paths.BROKER_IDS}/78": json.dumps(
        BROKER | {"endpoints": ["X://h:1"], "listener_security_protocol_map": {"X": "FOO"}}
    ).encode(),
    f"{paths.BROKER_IDS}/79": json.dumps(
        BROKER
        | {"endpoints": ["PLAINTEXT://" + "h" * 249 + ":70000"]}
        | {"listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}}
    ).encode(),
    f"{paths.BROKER_IDS}/99999999999": BRACKETS,
    f"{paths.BROKER_IDS}/x": BRACKETS,
    paths.PRODUCER_ID_BLOCK: BRACKETS,
    paths.FEATURE: BRACKETS,
    paths.CLUSTER_ID: BRACKETS,
}


async def put(cluster: SimCluster, znodes: dict[str, bytes]) -> None:
    world = cluster.client_host.world
    session = await world.coordination.open("zookeeper:2181", 6000, 10_000)
    store = ZkStore(session)
    for path, data in znodes.items():
        if parent := path.rpartition("/")[0]:
            await store._requests.create_if_missing(parent)
        try:
            await session.create(path, data)
        except NodeExists:
            await session.set(path, data)
    await session.close()


async def good_topic_works(cluster: SimCluster, value: bytes) -> None:
    """Without idempotence, since no producer ids can be allocated."""
    settings = ProducerConfig(enable_idempotence=False, delivery_timeout_ms=60_000)
    world, config = cluster.client_host.world, cluster.client_config
    async with Producer(world, config, settings) as producer:
        for tp in GOOD:
            sent = await producer.send("good", value, partition=tp.partition)
            await sent


@pytest.mark.mission("DOOR-4")
def test_garbage_in_every_znode_stops_no_broker() -> None:
    """Some brokers see it arrive, and all of them start with it."""
    seen: list[LogEvent] = []

    async def play(cluster: SimCluster) -> None:
        cluster.observers.append(seen.append)
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            made = await admin.create_topics(
                [NewTopic("good", 3, 3, {}, {}), NewTopic("bad", len(STATES), 3, {}, {})]
            )
            assert not any(isinstance(result, Exception) for result in made.values()), made
        bad = [TopicPartition("bad", p) for p in range(len(STATES))]
        await cluster.until_whole(*GOOD, *bad)
        await put(
            cluster,
            {paths.partition_state(tp): STATES[tp.partition] for tp in bad}
            | {paths.topic(name): data for name, data in ASSIGNMENTS.items()}
            | OTHERS,
        )
        await good_topic_works(cluster, b"arrived")
        for broker_id in cluster.broker_ids:  # each controller in turn fails over
            await cluster.host(broker_id).kill()
            await cluster.until("failover", lambda: has_leaders(cluster))
            cluster.start(broker_id)
            await cluster.until_whole(*GOOD)
        await put(cluster, {paths.CONTROLLER: BRACKETS})
        await good_topic_works(cluster, b"failed over")
        for broker_id in cluster.broker_ids:
            await cluster.stop(broker_id)
        cluster.start()
        await cluster.until_whole(*GOOD)
        await good_topic_works(cluster, b"started")

    SimCluster(7).run(play)
    said = {event.name for event in seen}
    assert {
        "topic_assignment_malformed", "partition_state_malformed", "broker_registration_malformed",
        "topic_settings_malformed", "broker_settings_malformed", "reassignment_malformed",
        "preferred_election_malformed", "topic_name_refused", "cluster_id_malformed",
    } <= said  # fmt: skip
    assert "event_failed" not in said


def has_leaders(cluster: SimCluster) -> bool:
    alive = cluster.nodes().keys()
    return cluster.controller_id() in alive and all(cluster.leader(tp) in alive for tp in GOOD)
