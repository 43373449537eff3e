"""AlterReplicaLogDirs (key 34): replicas to move to other log directories of their broker."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places, topic_partitions
from minikafka.protocol.schema import ORDINARY, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDir:
    """What is to lie in one directory."""

    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsRequest(Message):
    """Where replicas are to go."""

    SPEC = request(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        Places(
            (Level("dirs", "path", ""), *topic_partitions(index="")),
            topic_partitions("results", "topic_name"),
        ),
        max_elements=ORDINARY,
    )

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult:
    """How one replica took it: no error means that the move has begun, or is done."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult:
    """The results for one topic."""

    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Message):
    """One result per replica."""

    SPEC = response(ApiKey.ALTER_REPLICA_LOG_DIRS)

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
