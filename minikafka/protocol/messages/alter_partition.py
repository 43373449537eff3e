"""AlterPartition (key 56): a leader requests a change of ISRs from the controller (KIP-497)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class IsrMember:
    """A replica of the new ISR. A ``broker_epoch`` of -1 is not checked (KIP-903)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@dataclass(slots=True)
class AlterPartitionPartition:
    """The ISR that the leader wants. ``partition_epoch`` is the epoch that it replaces: the
    zkVersion of the state znode."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[list[Int32], In("0-2")] = field(default_factory=list)
    new_isr_with_epochs: Annotated[list[IsrMember], In("3+")] = field(default_factory=list)
    leader_recovery_state: Annotated[Int8, In("1+")] = 0
    partition_epoch: Int32 = 0


@dataclass(slots=True)
class AlterPartitionTopic:
    """Partitions of one topic, by name or, from version 2 on, by id."""

    topic_name: Annotated[String, In("0-1", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("2+", ignorable=True)] = ZERO_UUID
    partitions: list[AlterPartitionPartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionRequest(Message):
    """New ISRs of partitions that broker ``broker_id`` leads."""

    SPEC = request(
        ApiKey.ALTER_PARTITION,
        WHOLE,
        # A leader whose followers are all slow or dead names all of its partitions.
        max_elements=WHOLE_CLUSTER,
    )

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlteredPartition:
    """The state of the partition after a success, otherwise an error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    leader_recovery_state: Annotated[Int8, In("1+", ignorable=True)] = 0
    partition_epoch: Int32 = 0


@dataclass(slots=True)
class AlteredTopic:
    """Partitions of one topic, by name or id as in the request."""

    topic_name: Annotated[String, In("0-1", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("2+", ignorable=True)] = ZERO_UUID
    partitions: list[AlteredPartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionResponse(Message):
    """One result per partition, or an error of the whole."""

    SPEC = response(ApiKey.ALTER_PARTITION)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlteredTopic] = field(default_factory=list)
