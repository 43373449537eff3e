"""Fetch (key 1): read record batches from partitions, for consumers and followers alike."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Addresses, Places, topic_partitions
from minikafka.protocol.schema import (
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    request,
    response,
)

NOT_SENT: Final = (1 << 63) - 1  # the high watermark of a request without one


@dataclass(slots=True)
class ReplicaState:
    """The follower that asks (KIP-903); in older versions ``replica_id`` of the request."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@dataclass(slots=True)
class FetchPartition:
    """Where to read on in one partition."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In("9+", ignorable=True)] = -1
    fetch_offset: Annotated[Int64, In("0+", varies=True)] = 0
    last_fetched_epoch: Annotated[Int32, In("12+")] = -1
    # The follower's own; -1 from consumers.
    log_start_offset: Annotated[Int64, In("5+", ignorable=True)] = -1
    # A limit for this partition (KIP-74).
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In("17+", tag=0, ignorable=True)] = ZERO_UUID
    # What a replica of KRaft's metadata knows; not read here (KIP-1166).
    high_watermark: Annotated[Int64, In("18+", tag=1, ignorable=True)] = NOT_SENT


@dataclass(slots=True)
class FetchTopic:
    """The partitions of one topic to read: named up to version 12, by id from 13."""

    topic: Annotated[String, In("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("13+", ignorable=True)] = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True)
class ForgottenTopic:
    """Partitions that leave the session."""

    topic: Annotated[String, In("7-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("13+", ignorable=True)] = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class FetchRequest(Message):
    """Reads on from given offsets. With a session id it names only what has changed (KIP-227)."""

    SPEC = request(
        ApiKey.FETCH,
        Places(
            topic_partitions("topics", "topic", "partitions", "partition", ("topic_id",)),
            topic_partitions("responses", "topic", also=("topic_id",)),
            values={"high_watermark": -1, "records": b""},
        ),
        # A follower names all partitions that it follows of one leader.
        max_elements=50_000,
    )

    cluster_id: Annotated[String | None, In("12+", tag=0, ignorable=True)] = None
    replica_id: Annotated[Int32, In("0-14")] = -1
    replica_state: Annotated[ReplicaState | None, In("15+", tag=1)] = None
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    # A limit for the whole response, save that its first batch always fits (KIP-74).
    max_bytes: Annotated[Int32, In("3+", ignorable=True)] = 0x7FFFFFFF
    # 0 read uncommitted, 1 read committed.
    isolation_level: Annotated[Int8, In("4+", ignorable=True)] = 0
    session_id: Annotated[Int32, In("7+", ignorable=True, varies=True)] = 0
    # -1 without session, 0 to open one.
    session_epoch: Annotated[Int32, In("7+", ignorable=True, varies=True)] = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], In("7+")] = field(default_factory=list)
    rack_id: Annotated[String, In("11+", ignorable=True)] = ""


@dataclass(slots=True)
class EpochEndOffset:
    """The largest epoch that the logs share, and where it ends (KIP-595)."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """Who leads instead, where the asked broker does not."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(slots=True)
class SnapshotId:
    """A snapshot to take instead of the log; only KRaft has them."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@dataclass(slots=True)
class AbortedTransaction:
    """A transaction whose records from ``first_offset`` on are to be left out."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@dataclass(slots=True)
class PartitionData:
    """The batches of one partition and its offsets, or an error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, In("4+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, In("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, In("12+", tag=0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, In("12+", tag=1)] = None
    snapshot_id: Annotated[SnapshotId | None, In("12+", tag=2)] = None
    # None, not an empty list, is what Kafka sends to those that read uncommitted.
    aborted_transactions: Annotated[list[AbortedTransaction] | None, In("4+", ignorable=True)] = (
        field(default_factory=list)
    )
    preferred_read_replica: Annotated[Int32, In("11+")] = -1
    records: Records | None = None


@dataclass(slots=True)
class FetchableTopicResponse:
    """The results for one topic."""

    topic: Annotated[String, In("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("13+", ignorable=True)] = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint:
    """Where a leader named in the response can be reached."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(slots=True)
class FetchResponse(Message):
    """One result per partition asked for; in a session only those with news."""

    SPEC = response(ApiKey.FETCH, Addresses("node_endpoints", since=16))

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, In("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, In("7+")] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], In("16+", tag=0)] = field(default_factory=list)
