"""Kafka's paths in ZooKeeper."""

from __future__ import annotations

import re

from minikafka.kernel.cluster import TopicPartition

_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_INT = 2**31 - 1

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
ACL_CHANGES = "/kafka-acl-changes"
ACL_CHANGE_PREFIX = "/kafka-acl-changes/acl_changes_"
PREFIXED_ACL_CHANGES = "/kafka-acl-extended-changes"
PREFIXED_ACL_CHANGE_PREFIX = "/kafka-acl-extended-changes/acl_changes_"
DELEGATION_TOKENS = "/delegation_token/tokens"
TOKEN_CHANGES = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX = "/delegation_token/token_changes/token_change_"

TOPIC_CONFIGS = "topics"
CLIENT_CONFIGS = "clients"
USER_CONFIGS = "users"
BROKER_CONFIGS = "brokers"
IP_CONFIGS = "ips"
CLIENT_METRICS_CONFIGS = "client-metrics"
GROUP_CONFIGS = "groups"
DEFAULT_ENTITY = "<default>"

# Created by every broker when it starts (Kafka's ZkData.PersistentZkPaths).
PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    f"{CONFIG}/{TOPIC_CONFIGS}",
    f"{CONFIG}/{CLIENT_CONFIGS}",
    f"{CONFIG}/{USER_CONFIGS}",
    f"{CONFIG}/{BROKER_CONFIGS}",
    f"{CONFIG}/{IP_CONFIGS}",
)


def broker_id(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}"


def partition_state(topic_partition: TopicPartition) -> str:
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}/state"


def number_of(name: str) -> int | None:
    """Return the broker id or partition that ``name`` stands for; None for any name that no broker
    would write, such as ``01``, ``1_0``, ``-1`` or a number beyond Java's int."""
    number = int(name) if _NUMBER.fullmatch(name) else None
    return number if number is not None and number <= _MAX_INT else None


def partition_of_state(path: str) -> TopicPartition | None:
    """Return the partition whose state znode is at ``path``; None for any other path."""
    match path.removeprefix(f"{TOPICS}/").split("/"):
        case [topic_name, "partitions", name, "state"] if (number := number_of(name)) is not None:
            return TopicPartition(topic_name, number)
    return None


def config(entity_type: str, entity_name: str) -> str:
    return f"{CONFIG}/{entity_type}/{entity_name}"


def consumer_offset(group_id: str, topic_partition: TopicPartition) -> str:
    return f"/consumers/{group_id}/offsets/{topic_partition.topic}/{topic_partition.partition}"


def delete_topic(topic_name: str) -> str:
    return f"{DELETE_TOPICS}/{topic_name}"


def isr_change(sequence: str) -> str:
    return f"{ISR_CHANGE_PREFIX}{sequence}"


def log_dir_event(sequence: str) -> str:
    return f"{LOG_DIR_EVENT_PREFIX}{sequence}"


def parents(path: str) -> list[str]:
    """Return every ancestor of ``path`` except the root, the highest one first."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts))]
