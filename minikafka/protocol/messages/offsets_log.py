"""The records of ``__consumer_offsets``: committed offsets, and groups with their members.

A key starts with an int16 for both its kind and its version: 0 and 1 are offset commits, 2 a
group. A value starts with its version; no value deletes. Kafka: ``OffsetCommitKey`` and so on.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import Bytes, In, Int32, Int64, Message, String, data

OFFSET_COMMIT_KEY_VERSIONS: Final = (0, 1)
GROUP_METADATA_KEY_VERSION: Final = 2


@dataclass(slots=True)
class OffsetCommitKey(Message):
    """Whose position on which partition."""

    SPEC = data("0-1")

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@dataclass(slots=True)
class OffsetCommitValue(Message):
    """Times are milliseconds; ``expire_timestamp`` is -1 unless the client asked for a time."""

    SPEC = data("0-4", flexible="4+")

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, In("3+", ignorable=True)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, In("1", ignorable=True)] = -1


@dataclass(slots=True)
class GroupMetadataKey(Message):
    """A group by its id."""

    SPEC = data("2")

    group: String = ""


@dataclass(slots=True)
class MemberMetadata:
    """A member; ``subscription`` and ``assignment`` are of the group's own protocol."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, In("3+", ignorable=True)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, In("1+", ignorable=True)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@dataclass(slots=True)
class GroupMetadataValue(Message):
    """A generation of a group: no protocol and no leader where it has no members."""

    SPEC = data("0-4", flexible="4+")

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = None
    leader: String | None = None
    current_state_timestamp: Annotated[Int64, In("2+", ignorable=True)] = -1
    members: list[MemberMetadata] = field(default_factory=list)
