"""Waiting until leaders serve: a producer with acks=0 does not notice that they do not.

As in Kafka, the response to CreateTopics may arrive before the LeaderAndIsr request has reached the
leader of a partition.
"""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

WAIT_S = 20


def wait_for_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Return when the leader of every partition serves requests."""
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
