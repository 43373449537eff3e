"""A compacted topic on three real brokers: written over and over, read once per key."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.confluent import offset_of
from tests.support.cluster.cluster_state import until
from tests.support.cluster.leaders import wait_for_leaders
from tests.support.cluster.real_cluster import RealCluster

pytestmark = pytest.mark.cluster

KEYS = [b"key-%d" % number for number in range(20)]
FILLER = b"filler"
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    overrides = ("log.cleaner.backoff.ms=100", "zookeeper.session.timeout.ms=3000")
    directory = tmp_path_factory.mktemp("cleaning")
    with RealCluster(directory, brokers=3, overrides=overrides) as running:
        yield running


def read_all(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """Offsets, keys and values from the start to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while True:
            for message in consumer.consume(1000, timeout=1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                key = message.key()
                assert key is not None
                found.append((offset_of(message), key, message.value()))
    finally:
        consumer.close()


def write(producer: Producer, topic: str, pairs: list[tuple[bytes, bytes | None]]) -> None:
    for key, value in pairs:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(30) == 0


def test_after_compaction_each_key_is_read_once(cleaning: RealCluster) -> None:
    topic = f"compacted-{uuid.uuid4().hex[:8]}"
    bootstrap = cleaning.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 3, config=SETTINGS)])[topic].result(30)
    wait_for_leaders(bootstrap, topic, 1)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.num.messages": 50,
        }
    )
    written = {}
    for turn in range(250):
        for key in KEYS:
            written[key] = b"%d of " % turn + key + uuid.uuid4().bytes * 6
        write(producer, topic, list(written.items()))
    deleted = KEYS[:3]
    write(producer, topic, [(key, None) for key in deleted])
    kept = {key: value for key, value in written.items() if key not in deleted}

    def once_each() -> bool:
        write(producer, topic, [(FILLER, uuid.uuid4().bytes * 10) for _ in range(200)])  # rolls
        found = read_all(bootstrap, topic)
        offsets = [offset for offset, *_ in found]
        assert offsets == sorted(set(offsets))
        latest = {key: value for _, key, value in found if key != FILLER}
        assert {key: value for key, value in latest.items() if value is not None} == kept
        counts = Counter(key for _, key, _ in found if key != FILLER)
        return counts == dict.fromkeys(kept, 1)

    until(once_each, "one record per key, none of the deleted ones", 60)
    for broker_id in (1, 2, 3):  # each cleans for itself
        checkpoint = cleaning.data(broker_id) / "cleaner-offset-checkpoint"
        until(
            partial(lambda c: cleaned(c, topic), checkpoint), f"{checkpoint} tells of {topic}", 30
        )


def cleaned(checkpoint: Path, topic: str) -> bool:
    return checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text()
