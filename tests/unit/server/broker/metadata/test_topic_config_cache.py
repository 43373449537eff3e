"""Topic settings: read once, the broker's where a topic has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from minikafka.kernel.ports import CoordinationError
from minikafka.kernel.settings import BROKER_CONFIG, topic_defaults
from minikafka.server.broker.metadata.topic_configs import TopicConfigCache
from minikafka.server.zookeeper.requests import MalformedZnode

BROKER = BROKER_CONFIG.parse({"zookeeper.connect": "zk:2181", "min.insync.replicas": "2"})


class Store:
    def __init__(self, **given: Mapping[str, str]) -> None:
        self.given = given
        self.asked: list[list[str]] = []
        self.away = False
        self.garbled = ""

    async def __call__(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        if self.away:
            raise CoordinationError
        if self.garbled in topics:
            raise MalformedZnode(f"/config/topics/{self.garbled}", b"{", "no JSON")
        self.asked.append(list(topics))
        return {topic: self.given[topic] for topic in topics if topic in self.given}


async def test_topic_settings_override_broker_settings() -> None:
    store = Store(a={"segment.bytes": "1000", "cleanup.policy": "compact,delete", "x.y": "1"})
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    assert configs.get("a").min_insync_replicas == 2
    await configs.load(["a", "b"])
    assert configs.get("a").log.segment_bytes == 1000
    assert configs.get("a").log.cleanup_policy == "compact,delete"
    assert configs.get("a").min_insync_replicas == 2
    assert configs.get("b").log.segment_bytes == 1 << 30
    await configs.load(["a", "b"])
    assert store.asked == [["a", "b"]]


async def test_reload_reads_again() -> None:
    store = Store(a={"min.insync.replicas": "1"})
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    await configs.load(["a"])
    store.given["a"] = {"min.insync.replicas": "3"}
    await configs.reload(["a"])
    assert configs.get("a").min_insync_replicas == 3


async def test_a_topic_made_again_is_read_again() -> None:
    store = Store(a={"min.insync.replicas": "1"})
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    await configs.load(["a", "b"])
    configs.forget("a")
    configs.forget("never known")
    store.given["a"] = {"min.insync.replicas": "3"}
    await configs.load(["a", "b"])
    assert configs.get("a").min_insync_replicas == 3
    assert store.asked == [["a", "b"], ["a"]]


async def test_unreadable_topic_settings_fall_back_to_the_broker_s() -> None:
    store = Store(a={"min.insync.replicas": "many", "max.message.bytes": "77"})
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    await configs.load(["a"])
    assert configs.get("a").min_insync_replicas == 2
    assert configs.get("a").log.max_message_bytes == 77


async def test_one_garbled_znode_leaves_its_topic_at_the_broker_s_and_no_other() -> None:
    store = Store(a={"min.insync.replicas": "1"}, b={"min.insync.replicas": "3"})
    store.garbled = "a"
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    await configs.load(["a", "b"])
    assert configs.get("a").min_insync_replicas == 2
    assert configs.get("b").min_insync_replicas == 3


async def test_nothing_is_known_while_zookeeper_is_away() -> None:
    store = Store()
    store.away = True
    configs = TopicConfigCache(store, topic_defaults(BROKER))
    with pytest.raises(CoordinationError):
        await configs.load(["a"])
    store.away = False
    await configs.load(["a"])
    assert store.asked == [["a"]]
