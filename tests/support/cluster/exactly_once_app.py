"""An application that consumes, transforms and produces in transactions, for tests that kill it.

Arguments: bootstrap servers, topic to read, topic to write, and a name: the consumer group and the
transactional id. If a transaction fails for good, it
ends with status 1, and its parent restarts it.
"""

from __future__ import annotations

import signal
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.clients.confluent import offset_of, value_of

BATCH = 10
TIMEOUT_S = 60
# librdkafka's send_offsets_to_transaction may wait for ever for a group coordinator that has gone
# from the metadata, whatever its time-out (its issues 5456, 5511). The process ends itself
# after waiting this long.
STUCK_S = 30


def main(bootstrap: str, source: str, target: str, name: str) -> int:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)  # from now on those before are fenced
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    (where,) = consumer.committed([TopicPartition(source, 0)], TIMEOUT_S)
    consumer.assign([TopicPartition(source, 0, max(0, where.offset))])
    while True:
        messages = [m for m in consumer.consume(BATCH, 1.0) if not m.error()]
        if not messages:
            continue
        signal.alarm(STUCK_S)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, b"seen " + value_of(message), partition=0)
        position = TopicPartition(source, 0, offset_of(messages[-1]) + 1)
        producer.send_offsets_to_transaction(
            [position], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        signal.alarm(0)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaException as error:
        sys.exit(str(error))
