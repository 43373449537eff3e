"""StopReplica (key 5): the controller tells a broker to stop, perhaps delete, replicas."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    Bool,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class StopReplicaPartitionV0:
    """A partition in version 0."""

    topic_name: String = ""
    partition_index: Int32 = 0


@dataclass(slots=True)
class StopReplicaTopicV1:
    """The partitions of one topic in versions 1 and 2."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class StopReplicaPartitionState:
    """A replica to stop."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    delete_partition: Bool = False


@dataclass(slots=True)
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    partition_states: list[StopReplicaPartitionState] = field(default_factory=list)


@dataclass(slots=True)
class StopReplicaRequest(Message):
    """Three shapes: flat (0), by topic (1, 2), by topic with a flag per partition (3 and up)."""

    SPEC = request(ApiKey.STOP_REPLICA, WHOLE, max_elements=WHOLE_CLUSTER)

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Bool, In("4+")] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, In("1+", ignorable=True)] = -1
    delete_partitions: Annotated[Bool, In("0-2")] = False
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], In("0")] = field(
        default_factory=list
    )
    topics: Annotated[list[StopReplicaTopicV1], In("1-2")] = field(default_factory=list)
    topic_states: Annotated[list[StopReplicaTopicState], In("3+")] = field(default_factory=list)


@dataclass(slots=True)
class StopReplicaPartitionError:
    """How it went for one partition."""

    topic_name: String = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class StopReplicaResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.STOP_REPLICA)

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = field(default_factory=list)
