"""Every request with hostile names: no broker ends, no path leaves its place."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.client import Admin
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import TopicPartition
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.layout import Array, Field, Struct, WireType, layout_of
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.schema import BOOL, STRING, UUID_TYPE, Fixed
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from minikafka.world.memory.file_tree import Directory

NAMES = (
    "", ".", "..", "../../..", "../good", "a/b", "/", "/etc", "good/partitions", "a\0b", "a b",
    "\u00fc", "x" * 249, "x" * 250, "h" * 5000, "<default>", "good-0", "%2e%2e", "\x1b[31m",
    "\uffff", "\U0001f600",
)  # fmt: skip
PARTITIONS = (0, -1, 2**31 - 1, -(2**31))
# Values that let a request pass the checks before its names are looked at.
NUMBERS = {
    "broker_epoch": -1, "broker_id": 1, "broker_ids": 1, "controller_epoch": 1_000_000,
    "controller_id": 1, "isr": 1, "leader": 1, "leader_epoch": 7, "node_id": 1, "replicas": 1,
    "timeout_ms": 100, "count": 2, "num_partitions": 1, "replication_factor": 1, "port": 9092,
    "session_timeout_ms": 10_000, "rebalance_timeout_ms": 100, "acks": 1, "id": 1,
    "max_wait_ms": 0, "partition_max_bytes": 1000, "offset": 0, "replica_id": -1,
}  # fmt: skip
RESOURCE_TYPES = (2, 4, 8)  # topic, broker, broker logger


class Filler:
    """Makes a request whose strings are all ``name`` and whose partitions are ``partition``."""

    def __init__(self, name: str, partition: int, resource_type: int) -> None:
        self.name, self.partition, self.resource_type = name, partition, resource_type

    def message(self, cls: Any, version: int, flexible: bool) -> Any:
        layout = layout_of(cls, version, flexible)
        fields = [f for f in layout.plain + layout.tagged if f.type != UUID_TYPE]
        return cls(**{f.name: self.value(f, f.type, version, flexible) for f in fields})

    def value(self, field: Field, wire: WireType, version: int, flexible: bool) -> Any:
        if isinstance(wire, Array):
            return [self.value(field, wire.element, version, flexible)]
        if isinstance(wire, Struct):
            return self.message(wire.cls, version, flexible)
        if wire == STRING:
            return self.name
        if not isinstance(wire, Fixed):
            return b""
        if wire == BOOL or wire.code == "d":
            return field.default
        if wire.code in "ih" and ("partition" in field.name or field.name == "index"):
            numbered = field.name not in NUMBERS and wire.code == "i"
            return self.partition if numbered else NUMBERS.get(field.name, 0)
        if field.name == "resource_type":
            return self.resource_type
        default = field.default if isinstance(field.default, int) else 0
        return NUMBERS.get(field.name, default)


def directories(directory: Directory, above: str = "") -> list[str]:
    found = []
    for name, node in directory.entries.items():
        found.append(f"{above}/{name}")
        if isinstance(node, Directory):
            found += directories(node, f"{above}/{name}")
    return found


def znodes(cluster: SimCluster, path: str = "") -> list[str]:
    found = []
    for name in cluster.simulation.zookeeper.tree.children(path or "/"):
        found += [f"{path}/{name}", *znodes(cluster, f"{path}/{name}")]
    return found


async def send(cluster: SimCluster, message: Any, version: int) -> str:
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(1), PORT, "tool", ChannelConfig()
    )
    try:
        await channel.request(message, version, 1_000)
    except (OSError, TimeoutError) as error:  # closed, or parked
        return type(error).__name__
    finally:
        channel.close()
    return "answered"


@pytest.mark.mission("DOOR-1")
@pytest.mark.parametrize("api_key", sorted(REQUESTS), ids=lambda key: key.api_name)
def test_no_name_in_a_request_ends_a_broker_or_leaves_its_place(api_key: ApiKey) -> None:
    cls = REQUESTS[api_key]
    ends: list[str] = []

    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            made = await admin.create_topics([NewTopic("good", 1, 1, {}, {})])
            assert not isinstance(made["good"], Exception)
        await cluster.until_whole(TopicPartition("good", 0))
        last = api_key.max_version
        for version in sorted({api_key.first_version, (api_key.first_version + last) // 2, last}):
            flexible = version >= cls.SPEC.first_flexible
            for name in NAMES:
                for partition in PARTITIONS:
                    filler = Filler(name, partition, RESOURCE_TYPES[len(ends) % 3])
                    ends.append(
                        await send(cluster, filler.message(cls, version, flexible), version)
                    )
                    cluster._check_processes()
        assert await cluster_serves(cluster)
        root = cluster.host(1).disk.directory("/")
        places = directories(root)
        assert all(place.startswith("/data") for place in places), places
        logs = [place for place in places if place.count("/") == 2 and "." not in place]
        for log in logs:
            topic = log.removeprefix("/data/").rpartition("-")[0]
            assert not topic or name_problem(topic) is None, log
        topics = "/brokers/topics/"
        for node in znodes(cluster):
            if node.startswith(topics):
                assert name_problem(node.removeprefix(topics).split("/")[0]) is None, node

    SimCluster(3, (1,)).run(play)
    assert len(ends) >= len(NAMES) * len(PARTITIONS)


async def cluster_serves(cluster: SimCluster) -> bool:
    cls = REQUESTS[ApiKey.API_VERSIONS]
    return await send(cluster, cls(), 0) == "answered"
