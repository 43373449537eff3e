"""Every znode of Kafka's, one dataclass each: its path and its JSON, byte for byte."""

from minikafka.zookeeper.errors import MalformedZnode
from minikafka.zookeeper.znodes.admin import (
    ConfigChangeZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PreferredElectionZnode,
    ReassignPartitionsZnode,
)
from minikafka.zookeeper.znodes.cluster import (
    BrokerZnode,
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    ProducerIdBlockZnode,
)
from minikafka.zookeeper.znodes.json_form import uuid_from_text, uuid_to_text
from minikafka.zookeeper.znodes.topics import ConfigZnode, PartitionStateZnode, TopicZnode

__all__ = [
    "BrokerZnode",
    "ClusterIdZnode",
    "ConfigChangeZnode",
    "ConfigZnode",
    "ControllerEpochZnode",
    "ControllerZnode",
    "FeatureZnode",
    "IsrChangeZnode",
    "LogDirEventZnode",
    "MalformedZnode",
    "PartitionStateZnode",
    "PreferredElectionZnode",
    "ProducerIdBlockZnode",
    "ReassignPartitionsZnode",
    "TopicZnode",
    "uuid_from_text",
    "uuid_to_text",
]
