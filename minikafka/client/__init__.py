"""The asyncio Kafka client: producer, consumer and admin client over any World.

Applications use it through ``minikafka.aio``; the command line, the node's tools and the
simulator import it directly. Start reading at ``session.py``: connections, metadata and retries,
which the three clients share. Their decisions are in ``core/client``.

Every task is in the client's TaskGroup, and ``close`` or ``abort`` ends each: no task, timer,
connection or unretrieved future is left.
"""

from typing import TYPE_CHECKING

from minikafka.kernel.lazy_module import lazy_names

if TYPE_CHECKING:
    from minikafka.client.admin.admin import Admin
    from minikafka.client.config import ClientConfig
    from minikafka.client.consumer.consumer import (
        CommitFailedError,
        Consumer,
        ConsumerConfig,
        ConsumerRecord,
        ConsumerRecords,
        RebalanceListener,
        SubscriptionPattern,
    )
    from minikafka.client.consumer.share_consumer import (
        AcknowledgeType,
        ShareConsumer,
        ShareConsumerConfig,
        ShareRecord,
    )
    from minikafka.client.consumer.truncation import LogTruncationError
    from minikafka.client.producer.producer import (
        Producer,
        ProducerConfig,
        RecordMetadata,
        RecordsMetadata,
    )
    from minikafka.client.serialization import RecordDeserializationError
    from minikafka.core.client.admin.topics import ClusterDescription, CreatedTopic, NewTopic
    from minikafka.core.client.offsets import (
        EARLIEST_TIMESTAMP,
        LATEST_TIMESTAMP,
        MAX_TIMESTAMP,
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
    )
    from minikafka.kernel.client_security import OAuthToken
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "minikafka.client.admin.admin": ("Admin",),
            "minikafka.client.config": ("ClientConfig",),
            "minikafka.client.consumer.consumer": (
                "CommitFailedError",
                "Consumer",
                "ConsumerConfig",
                "ConsumerRecord",
                "ConsumerRecords",
                "RebalanceListener",
                "SubscriptionPattern",
            ),
            "minikafka.client.consumer.share_consumer": (
                "AcknowledgeType",
                "ShareConsumer",
                "ShareConsumerConfig",
                "ShareRecord",
            ),
            "minikafka.client.consumer.truncation": ("LogTruncationError",),
            "minikafka.client.producer.producer": (
                "Producer",
                "ProducerConfig",
                "RecordMetadata",
                "RecordsMetadata",
            ),
            "minikafka.client.serialization": ("RecordDeserializationError",),
            "minikafka.core.client.admin.topics": (
                "ClusterDescription",
                "CreatedTopic",
                "NewTopic",
            ),
            "minikafka.core.client.offsets": (
                "EARLIEST_TIMESTAMP",
                "LATEST_TIMESTAMP",
                "MAX_TIMESTAMP",
                "GroupMetadata",
                "OffsetAndMetadata",
                "OffsetAndTimestamp",
            ),
            "minikafka.kernel.client_security": ("OAuthToken",),
        },
    )

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "AcknowledgeType",
    "Admin",
    "ClientConfig",
    "ClusterDescription",
    "CommitFailedError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "GroupMetadata",
    "LogTruncationError",
    "NewTopic",
    "OAuthToken",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerConfig",
    "RebalanceListener",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordsMetadata",
    "ShareConsumer",
    "ShareConsumerConfig",
    "ShareRecord",
    "SubscriptionPattern",
]
