"""Waiting until leaders serve: a producer without acknowledgements cannot notice that they do not.

As in Kafka, CreateTopics may be answered before the leader of a partition has heard that it is.
"""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

WAIT_S = 20


def wait_for_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Return when every leader answers for its partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    deadline = time.monotonic() + WAIT_S
    for partition in range(partitions):
        while True:
            try:
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=5)
                break
            except KafkaException:
                assert time.monotonic() < deadline, f"{topic}-{partition} has no leader"
    consumer.close()
