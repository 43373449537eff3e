"""DescribeLogDirs (key 35): log directories of one broker, and what lies in them."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    ORDINARY,
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
class DescribableLogDirTopic:
    """The partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsRequest(Message):
    """The partitions to describe, or None for all."""

    SPEC = request(ApiKey.DESCRIBE_LOG_DIRS, WHOLE, max_elements=ORDINARY)

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsPartition:
    """``offset_lag``: of the log end behind the high watermark, or of a future log behind the
    current one; -1 when it is not known."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@dataclass(slots=True)
class DescribeLogDirsTopic:
    """The logs of one topic in one directory."""

    name: String = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True)
class DescribeLogDirsResult:
    """One directory; sizes in bytes of the volume that holds it, -1 when they are not known."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[Int64, In("4+", ignorable=True)] = -1
    usable_bytes: Annotated[Int64, In("4+", ignorable=True)] = -1


@dataclass(slots=True)
class DescribeLogDirsResponse(Message):
    """All directories, those that are offline with an error."""

    SPEC = response(ApiKey.DESCRIBE_LOG_DIRS)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In("3+", ignorable=True)] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)
