"""The user data of the sticky assignors: what a member remembers of its last assignment.

Without a version in front; which one it is shows only by whether the bytes suffice. Kafka:
``StickyAssignor``, ``CooperativeStickyAssignor``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_protocol import ConsumerTopicPartitions
from minikafka.protocol.schema import In, Int32, Message, data


@dataclass(slots=True)
class StickyUserData(Message):
    """Of ``sticky``: the partitions held in a generation, which version 0 does not name."""

    SPEC = data("0-1")

    previous_assignment: list[ConsumerTopicPartitions] = field(default_factory=list)
    generation: Annotated[Int32, In("1+", ignorable=True)] = -1


@dataclass(slots=True)
class CooperativeStickyUserData(Message):
    """Of ``cooperative-sticky``: the partitions are in the subscription itself."""

    SPEC = data("0")

    generation: Int32 = -1
