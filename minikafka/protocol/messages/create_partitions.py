"""CreatePartitions (key 37): topics that are to grow."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import MANY, Bool, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class CreatePartitionsAssignment:
    """The brokers of one new partition, the preferred leader first."""

    broker_ids: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class CreatePartitionsTopic:
    """``count`` partitions it shall have in all; ``assignments`` None: placed by the controller."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@dataclass(slots=True)
class CreatePartitionsRequest(Message):
    """Which topics are to grow, and how long to wait for it."""

    SPEC = request(
        ApiKey.CREATE_PARTITIONS, Places((Level("topics"),), (Level("results"),)), max_elements=MANY
    )

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    """How it went for one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class CreatePartitionsResponse(Message):
    """One result per topic."""

    SPEC = response(ApiKey.CREATE_PARTITIONS)

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
