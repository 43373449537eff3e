"""LeaderAndIsr (key 4): the controller makes a broker leader or follower of partitions."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    Bool,
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
class LeaderAndIsrPartitionState:
    """The state that a partition is to take on."""

    topic_name: Annotated[String, In("0-1", ignorable=True)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    # The version of the state znode.
    partition_epoch: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: Annotated[list[Int32], In("3+", ignorable=True)] = field(default_factory=list)
    removing_replicas: Annotated[list[Int32], In("3+", ignorable=True)] = field(
        default_factory=list
    )
    # The replica has never been there: an empty log is no loss.
    is_new: Annotated[Bool, In("1+", ignorable=True)] = False
    # 1 after an unclean election, until the leader has recovered (KIP-704).
    leader_recovery_state: Annotated[Int8, In("6+")] = 0


@dataclass(slots=True)
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Annotated[Uuid, In("5+", ignorable=True)] = ZERO_UUID
    partition_states: list[LeaderAndIsrPartitionState] = field(default_factory=list)


@dataclass(slots=True)
class LeaderAndIsrLiveLeader:
    """Where a leader named in the request can be reached by its followers."""

    broker_id: Int32 = 0
    host_name: String = ""
    port: Int32 = 0


@dataclass(slots=True)
class LeaderAndIsrRequest(Message):
    """Up to version 1 a flat list of partitions, from 2 grouped by topic."""

    SPEC = request(ApiKey.LEADER_AND_ISR, WHOLE, max_elements=WHOLE_CLUSTER)

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Bool, In("7+")] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, In("2+", ignorable=True)] = -1
    # 0 unknown, 1 incremental, 2 all partitions (KIP-866).
    type: Annotated[Int8, In("5+")] = 0
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], In("0-1")] = field(
        default_factory=list
    )
    topic_states: Annotated[list[LeaderAndIsrTopicState], In("2+")] = field(default_factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader] = field(default_factory=list)


@dataclass(slots=True)
class LeaderAndIsrPartitionError:
    """How it went for one partition."""

    topic_name: Annotated[String, In("0-4", ignorable=True)] = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class LeaderAndIsrTopicError:
    """The results for one topic."""

    topic_id: Uuid = ZERO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = field(default_factory=list)


@dataclass(slots=True)
class LeaderAndIsrResponse(Message):
    """Up to version 4 a flat list, from 5 grouped by topic id."""

    SPEC = response(ApiKey.LEADER_AND_ISR)

    error_code: Int16 = 0
    partition_errors: Annotated[list[LeaderAndIsrPartitionError], In("0-4")] = field(
        default_factory=list
    )
    topics: Annotated[list[LeaderAndIsrTopicError], In("5+")] = field(default_factory=list)
