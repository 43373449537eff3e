"""The metadata cache: the lookups of the rest of the broker."""

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.server.broker.metadata.cache import MetadataCache
from tests.support.broker.cluster_metadata import (
    cache_with,
    deletion,
    live_broker,
    partition_state,
    topic_id,
    update,
)
from tests.support.world.recording_log import RecordingLog


def test_cache_looks_up_topics_partitions_and_brokers() -> None:
    cache = cache_with(update({"b": [partition_state(0, 2, leader_epoch=4)], "a": []}))
    cache.update(update({"a": [partition_state(0, 1)]}, brokers=(3, 1)))
    assert cache.topics() == ["a", "b"]
    assert cache.partition_leader(TopicPartition("b", 0)) == (2, 4)
    assert cache.partition_leader(TopicPartition("b", 1)) is None
    assert cache.contains(TopicPartition("b", 0))
    assert not cache.contains(TopicPartition("b", 1))
    assert cache.contains_topic("a")
    assert set(cache.partitions("b")) == {0}
    assert cache.partitions("z") == {}
    assert [b.id for b in cache.live_brokers()] == [1, 3]
    assert cache.broker(2) is None
    assert cache.endpoint(3, "PLAINTEXT") is not None
    assert cache.controller_id == 1
    assert (cache.topic_id("a"), cache.topic_id("z")) == (topic_id("a"), ZERO_UUID)
    assert (cache.topic_name(topic_id("a")), cache.topic_name(topic_id("z"))) == ("a", None)
    assert cache.update(deletion("b", 1)) == [TopicPartition("b", 0)]


def test_unlike_listeners_are_complained_of() -> None:
    log = RecordingLog()
    cache = MetadataCache(1, log)
    cache.update(update(brokers=(1, 2)))
    assert log.events == []
    cache.update(update(brokers=[live_broker(1), live_broker(2, ("PLAINTEXT", "OUT"))]))
    assert [(event, facts["other_broker"]) for _, event, facts in log.events] == [
        ("listener_mismatch_found", 2)
    ]


def test_epochs_that_go_back_are_applied_and_reported() -> None:
    log = RecordingLog()
    cache = MetadataCache(1, log)
    cache.update(update({"a": [partition_state(0, 2, leader_epoch=4), partition_state(1, 2)]}))
    cache.update(update({"a": [partition_state(0, 2, leader_epoch=4), partition_state(1, 3)]}))
    assert log.events == []
    cache.update(update({"a": [partition_state(0, 1, leader_epoch=3), partition_state(1, 3)]}))
    assert cache.partition_leader(TopicPartition("a", 0)) == (1, 3)
    assert [(event, facts["partitions"]) for _, event, facts in log.events] == [
        ("metadata_epochs_decreased", ["a-0"])
    ]


def test_a_topic_that_was_created_again_begins_with_new_epochs() -> None:
    log = RecordingLog()
    cache = MetadataCache(1, log)
    cache.update(update({"a": [partition_state(0, 2, leader_epoch=4)]}))
    again = update({"a": [partition_state(0, 2)]})
    again.topic_states[0].topic_id = topic_id("another")
    cache.update(again)
    assert cache.partition_leader(TopicPartition("a", 0)) == (2, 0)
    assert log.events == []
