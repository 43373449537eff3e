"""The verb log-dirs: what it prints, what it refuses."""

from __future__ import annotations

import pytest

from minikafka.cli.cluster.log_dirs import as_json, broker_ids
from minikafka.core.client.admin.replicas import LogDirDescription, ReplicaInfo
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode


def test_the_shape_is_kafkas() -> None:
    replicas = {
        TopicPartition("b", 1): ReplicaInfo(7, 0, False),
        TopicPartition("a", 0): ReplicaInfo(5, 3, True),
    }
    dirs = {
        "/d": LogDirDescription(ErrorCode.NONE, replicas),
        "/e": LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR),
    }
    a = {"partition": "a-0", "size": 5, "offsetLag": 3, "isFuture": True}
    b = {"partition": "b-1", "size": 7, "offsetLag": 0, "isFuture": False}
    offline = {"logDir": "/e", "error": "KAFKA_STORAGE_ERROR", "partitions": []}
    for topics, shown in ((set[str](), [a, b]), ({"b"}, [b])):
        assert as_json({4: dirs}, topics) == {
            "version": 1,
            "brokers": [
                {
                    "broker": 4,
                    "logDirs": [{"logDir": "/d", "error": None, "partitions": shown}, offline],
                }
            ],
        }


def test_brokers_are_numbers() -> None:
    assert broker_ids("1,2,") == {1, 2}
    assert broker_ids("") == set()
    with pytest.raises(ConfigError, match="--broker-list"):
        broker_ids("one")
