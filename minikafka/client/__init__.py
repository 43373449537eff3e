"""A Kafka client over any World: producer, consumer by assignment, admin."""

from minikafka.client.admin import Admin, ClusterDescription, CreatedTopic, NewTopic
from minikafka.client.config import ClientConfig
from minikafka.client.consumer import Consumer, ConsumerConfig, ConsumerRecord
from minikafka.client.offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from minikafka.client.producer import Producer, ProducerConfig, RecordMetadata

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "Admin",
    "ClientConfig",
    "ClusterDescription",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "CreatedTopic",
    "NewTopic",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerConfig",
    "RecordMetadata",
]
