"""The embedded protocol of consumer groups: what a member wants, and what it is given.

Both start with their version as an int16. A version newer than the newest here is read as the
newest: later ones only add to the end. Kafka: ``ConsumerProtocol``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import Bytes, In, Int32, Message, String, data

PROTOCOL_TYPE: Final = "consumer"


@dataclass(slots=True)
class ConsumerTopicPartitions:
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerProtocolSubscription(Message):
    """``owned_partitions`` as of ``generation_id``."""

    SPEC = data("0-3")

    topics: list[String] = field(default_factory=list)
    user_data: Bytes | None = None
    owned_partitions: Annotated[list[ConsumerTopicPartitions], In("1+", ignorable=True)] = field(
        default_factory=list
    )
    generation_id: Annotated[Int32, In("2+", ignorable=True)] = -1
    rack_id: Annotated[String | None, In("3+", ignorable=True)] = None


@dataclass(slots=True)
class ConsumerProtocolAssignment(Message):
    """What one member consumes."""

    SPEC = data("0-3")

    assigned_partitions: list[ConsumerTopicPartitions] = field(default_factory=list)
    user_data: Bytes | None = None
