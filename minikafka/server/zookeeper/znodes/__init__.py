"""Kafka's znodes, one dataclass each: the path, and the JSON that is equal to Kafka's byte for
byte.

Used by the stores in ``zookeeper/`` and by tests. Start reading at ``topics.py``; ``json_form.py``
has the details of Kafka's JSON.
"""

from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes.admin import (
    ConfigChangeZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PreferredElectionZnode,
    ReassignPartitionsZnode,
)
from minikafka.server.zookeeper.znodes.cluster import (
    BrokerZnode,
    ClusterIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    ProducerIdBlockZnode,
)
from minikafka.server.zookeeper.znodes.topics import ConfigZnode, PartitionStateZnode, TopicZnode

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
]
