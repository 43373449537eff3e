"""Every znode's JSON, byte for byte as Kafka 3.9 writes it."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from minikafka.core.coordinator_shard import java_string_hash
from minikafka.kernel.cluster import (
    Endpoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
    parse_topic_id,
    topic_id_text,
)
from minikafka.kernel.features import Levels
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    MalformedZnode,
    PartitionStateZnode,
    PreferredElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)
from minikafka.server.zookeeper.znodes.json_form import properties_order, scala_order

TP = TopicPartition("t", 0)
TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ENDPOINTS = (Endpoint("h", 9092), Endpoint("10.0.0.1", 9093, "INSIDE", "SSL"))


@pytest.mark.mission("CEL-2", "R-2")
def test_controller() -> None:
    node = ControllerZnode(0, 1529210278988)
    assert node.path == "/controller"
    assert node.encode() == (
        b'{"version":2,"brokerid":0,"timestamp":"1529210278988","kraftControllerEpoch":-1}'
    )
    assert ControllerZnode.decode(node.encode()) == node
    old = b'{"version":1,"brokerid":0,"timestamp":"1529210278988"}'
    assert ControllerZnode.decode(old) == node
    assert ControllerZnode.decode(b'{"brokerid":7,"timestamp":"?"}') == ControllerZnode(7, 0)


@pytest.mark.mission("CEL-14")
def test_controller_epoch() -> None:
    assert ControllerEpochZnode(1).encode() == b"1"
    assert ControllerEpochZnode.decode(b"12").epoch == 12
    with pytest.raises(MalformedZnode, match="/controller_epoch: not an epoch"):
        ControllerEpochZnode.decode(b"")


def test_cluster_id() -> None:
    node = ClusterIdZnode("MkU3OEVBNTcwNTJENDM2Qg")
    assert node.path == "/cluster/id"
    assert node.encode() == b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qg"}'
    assert ClusterIdZnode.decode(node.encode()) == node


def test_broker() -> None:
    node = BrokerZnode(1, ENDPOINTS[:1], 1)
    assert node.path == "/brokers/ids/1"
    assert node.encode() == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,'
        b'"timestamp":"1"}'
    )
    racked = BrokerZnode(1, ENDPOINTS, 1, "r1", 9999)
    assert racked.encode() == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT",'
        b'"INSIDE":"SSL"},"endpoints":["PLAINTEXT://h:9092","INSIDE://10.0.0.1:9093"],"rack":"r1",'
        b'"jmx_port":9999,"port":9092,"host":"h","version":5,"timestamp":"1"}'
    )
    assert BrokerZnode.decode(1, racked.encode()) == racked
    broker = BrokerZnode.decode(1, racked.encode()).broker(epoch=77)
    assert (broker.id, broker.endpoints, broker.rack, broker.epoch) == (1, ENDPOINTS, "r1", 77)


def test_the_features_of_a_broker() -> None:
    """Written by ``BrokerIdZNode`` of Kafka 3.9.1, whose classes were given such features."""
    features = {"a.version": Levels(2, 3), "group.version": Levels(0, 1)}
    node = BrokerZnode(1, ENDPOINTS[:1], 1795996630837, features=features)
    assert node.encode() == (
        b'{"features":{"group.version":{"min_version":1,"max_version":1},'
        b'"a.version":{"min_version":2,"max_version":3}},'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,'
        b'"timestamp":"1795996630837"}'
    )
    read = BrokerZnode.decode(1, node.encode()).features
    assert read == {"group.version": Levels(1, 1), "a.version": Levels(2, 3)}
    assert b"features" not in replace(node, version=4).encode()


def test_broker_without_a_plaintext_listener_or_with_ipv6() -> None:
    node = BrokerZnode(1, (Endpoint("::1", 9093, "SSL", "SSL"),), 1)
    values = json.loads(node.encode())
    assert (values["host"], values["port"]) == (None, -1)
    assert values["endpoints"] == ["SSL://[::1]:9093"]
    assert BrokerZnode.decode(1, node.encode()) == node


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5"}',
        (
            b'{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5",'
            b'"endpoints":["PLAINTEXT://h:9092"]}'
        ),
        (
            b'{"version":4,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5","rack":null,'
            b'"endpoints":["plaintext://h:9092"],'
            b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
        ),
    ],
)
def test_brokers_of_older_versions_are_read(data: bytes) -> None:
    assert BrokerZnode.decode(1, data) == BrokerZnode(1, ENDPOINTS[:1], 5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"version":0}',
        b'{"version":true}',
        b'{"version":4,"endpoints":["h:9092"],"listener_security_protocol_map":{}}',
        b'{"version":4,"endpoints":["A://h:9092"],"listener_security_protocol_map":{"B":"SSL"}}',
        b'{"version":4,"endpoints":[7]}',
        (
            b'{"version":5,"timestamp":"5","features":{"f":{"min_version":1}},'
            b'"endpoints":["A://h:9092"],"listener_security_protocol_map":{"A":"SSL"}}'
        ),
    ],
)
def test_broken_brokers_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/ids/1"):
        BrokerZnode.decode(1, data)


def test_producer_id_block() -> None:
    node = ProducerIdBlockZnode(1, 0, 999)
    assert node.encode() == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert ProducerIdBlockZnode.decode(node.encode()) == node
    with pytest.raises(MalformedZnode):
        ProducerIdBlockZnode.decode(b'{"version":1,"broker":1,"block_start":"x","block_end":"9"}')


def test_feature() -> None:
    assert FeatureZnode().encode() == b'{"features":{},"version":2,"status":1}'
    assert FeatureZnode(True, {"group.version": 1}).encode() == (
        b'{"features":{"group.version":{"max_version_level":1}},"version":2,"status":1}'
    )
    assert FeatureZnode(True, {"group.version": 1}, 1).encode() == (
        b'{"features":{"group.version":{"max_version_level":1,"min_version_level":1}},'
        b'"version":1,"status":1}'
    )
    node = FeatureZnode(True, {"f": 3})
    assert FeatureZnode.decode(node.encode()) == node
    old = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    assert FeatureZnode.decode(old) == FeatureZnode(False, {"f": 3}, 1)
    with pytest.raises(MalformedZnode, match="version"):
        FeatureZnode.decode(b'{"version":3,"status":1,"features":{}}')


def test_topic() -> None:
    node = TopicZnode("t", TOPIC_ID, {0: ReplicaAssignment((1, 2))})
    assert node.path == "/brokers/topics/t"
    assert node.encode() == (
        b'{"partitions":{"0":[1,2]},"removing_replicas":{},"topic_id":"ABEiM0RVZneImaq7zN3u_w",'
        b'"adding_replicas":{},"version":3}'
    )
    moving = TopicZnode("t", None, {1: ReplicaAssignment((3, 1), (3,), (2,))})
    assert moving.encode() == (
        b'{"partitions":{"1":[3,1]},"removing_replicas":{"1":[2]},"adding_replicas":{"1":[3]},'
        b'"version":3}'
    )
    for one in (node, moving):
        assert TopicZnode.decode("t", one.encode()) == one
    old = TopicZnode.decode("t", b'{"version":1,"partitions":{"1":[2],"0":[1]}}')
    assert old == TopicZnode("t", None, {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))})
    assert list(old.assignment) == [0, 1]


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":3,"topic_id":"short","partitions":{}}',
        b'{"version":3,"partitions":{"x":[1]}}',
        b'{"version":3,"partitions":{"0":["1"]}}',
        b'{"version":3,"partitions":[]}',
    ],
)
def test_broken_topics_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/topics/t"):
        TopicZnode.decode("t", data)


def test_partition_state() -> None:
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2), 5), 1)
    node = PartitionStateZnode(TP, state)
    assert node.path == "/brokers/topics/t/partitions/0/state"
    assert node.encode() == (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    )
    assert PartitionStateZnode.decode(TP, node.encode(), 5) == node
    unclean = PartitionStateZnode(
        TP, LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 3, (1,), 6, leader_recovery_state=1), 1)
    )
    assert unclean.encode() == (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":3,"isr":[1]}'
    )
    assert PartitionStateZnode.decode(TP, unclean.encode(), 6) == unclean


def test_config() -> None:
    node = ConfigZnode("topics", "t", {"segment.bytes": "1", "cleanup.policy": "compact"})
    assert node.path == "/config/topics/t"
    assert node.encode() == (
        b'{"version":1,"config":{"cleanup.policy":"compact","segment.bytes":"1"}}'
    )
    assert ConfigZnode.decode("topics", "t", node.encode()) == node
    for bare in (b"", b'{"version":1}', b'{"version":1,"config":{}}'):
        assert ConfigZnode.decode("topics", "t", bare).config == {}
    with pytest.raises(MalformedZnode):
        ConfigZnode.decode("topics", "t", b'{"config":{"a":1}}')
    accented = ConfigZnode("users", "ü", {"k": 'é"\\/\x01'})
    assert accented.encode() == '{"version":1,"config":{"k":"é\\"\\\\/\\u0001"}}'.encode()


@pytest.mark.mission("R-2")
def test_notifications() -> None:
    config = ConfigChangeZnode("topics/foo")
    assert config.path == "/config/changes/config_change_"
    assert config.encode() == b'{"version":2,"entity_path":"topics/foo"}'
    assert ConfigChangeZnode.decode(config.encode()) == config
    old = b'{"version":1,"entity_type":"topics","entity_name":"foo"}'
    assert ConfigChangeZnode.decode(old) == config
    isr = IsrChangeZnode(frozenset({TP}))
    assert isr.path == "/isr_change_notification/isr_change_"
    assert isr.encode() == b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert IsrChangeZnode.decode(isr.encode()) == isr
    disk = LogDirEventZnode(1)
    assert disk.path == "/log_dir_event_notification/log_dir_event_"
    assert disk.encode() == b'{"version":1,"broker":1,"event":1}'
    assert LogDirEventZnode.decode(disk.encode()) == disk


@pytest.mark.mission("R-2")
def test_administrators_requests() -> None:
    moves = ReassignPartitionsZnode({TP: (1, 2)})
    assert moves.path == "/admin/reassign_partitions"
    assert moves.encode() == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    )
    assert ReassignPartitionsZnode.decode(moves.encode()) == moves
    election = PreferredElectionZnode(frozenset({TP}))
    assert election.path == "/admin/preferred_replica_election"
    assert election.encode() == b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert PreferredElectionZnode.decode(election.encode()) == election


def test_ids_as_text() -> None:
    assert topic_id_text(TOPIC_ID) == "ABEiM0RVZneImaq7zN3u_w"
    assert parse_topic_id("ABEiM0RVZneImaq7zN3u_w") == TOPIC_ID
    for broken in ("", "ABEi", "!!!", "é"):
        with pytest.raises(ValueError):
            parse_topic_id(broken)


def test_parents() -> None:
    assert paths.parents("/a/b/c") == ["/a", "/a/b"]
    assert paths.parents("/a") == []


# ------------------------------------------------------ key order, recorded from Scala and Java


def test_hash_codes_are_javas() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("version") == 351608024
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (3, "0,1,2"),
        (12, "11,0,1,2,3,4,5,6,7,8,9,10"),
        (13, "11,12,0,1,2,3,4,5,6,7,8,9,10"),
        (
            30,
            "22,23,24,25,26,27,28,29,10,11,12,13,14,15,16,17,18,19,0,1,2,3,4,5,6,7,8,9,20,21",
        ),
        (
            101,
            (
                "88,89,90,91,92,93,94,95,96,97,10,98,11,99,12,13,14,15,16,17,18,19,0,1,2,3,4,5,6,7,8,"
                "9,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,"
                "47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,"
                "75,76,77,78,79,100,80,81,82,83,84,85,86,87"
            ),
        ),
    ],
)
def test_partitions_come_in_scalas_order(count: int, order: str) -> None:
    assert scala_order(str(n) for n in range(count)) == order.split(",")


SETTINGS_AS_PUT = """
    cleanup.policy retention.ms min.insync.replicas segment.bytes max.message.bytes
    compression.type retention.bytes segment.ms unclean.leader.election.enable
    message.timestamp.type flush.messages flush.ms index.interval.bytes delete.retention.ms
    min.cleanable.dirty.ratio
"""
EIGHT_SETTINGS_AS_WRITTEN = """
    compression.type cleanup.policy max.message.bytes min.insync.replicas retention.ms
    segment.bytes segment.ms retention.bytes
"""
ALL_SETTINGS_AS_WRITTEN = """
    compression.type max.message.bytes message.timestamp.type min.insync.replicas
    index.interval.bytes min.cleanable.dirty.ratio unclean.leader.election.enable
    retention.bytes delete.retention.ms cleanup.policy flush.ms retention.ms segment.bytes
    segment.ms flush.messages
"""


def test_settings_come_in_javas_order() -> None:
    names = SETTINGS_AS_PUT.split()
    assert properties_order(names[:8]) == EIGHT_SETTINGS_AS_WRITTEN.split()
    assert properties_order(names) == ALL_SETTINGS_AS_WRITTEN.split()
