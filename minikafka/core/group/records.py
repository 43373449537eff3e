"""The records of ``__consumer_offsets``, encoded and decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.messages.consumer_group_log import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from minikafka.protocol.messages.offsets_log import (
    GROUP_METADATA_KEY_VERSION,
    OFFSET_COMMIT_KEY_VERSIONS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.messages.share_group_membership_log import (
    SHARE_GROUP_RECORDS,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from minikafka.protocol.messages.streams_group_log import (
    STREAMS_GROUP_RECORDS,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from minikafka.protocol.versioned import (
    VERSION_BYTES,
    decode_versioned,
    encode_versioned,
    version_of,
)

NO_TIMESTAMP: Final = -1
_LAST_GENERATION: Final = 2**31 - 1  # the next rebalance needs another one


class CommittedOffset(NamedTuple):
    """A committed offset. Times are milliseconds since 1970.

    With ``expire_ms`` -1 it expires by the broker's ``offsets.retention.minutes``.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = NO_TIMESTAMP
    expire_ms: int = NO_TIMESTAMP


class OffsetCommitted(NamedTuple):
    """The record of a committed offset; ``committed`` None is its tombstone."""

    group_id: str
    topic_partition: TopicPartition
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupStored:
    """The record of a group's generation; ``value`` None is the group's tombstone."""

    group_id: str
    value: GroupMetadataValue | None


ConsumerGroupKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerGroupValue: TypeAlias = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

ShareGroupKey: TypeAlias = (
    ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
ShareGroupValue: TypeAlias = (
    ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)
StreamsGroupKey: TypeAlias = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
StreamsGroupValue: TypeAlias = (
    StreamsGroupMetadataValue
    | StreamsGroupMemberMetadataValue
    | StreamsGroupTargetAssignmentMetadataValue
    | StreamsGroupTargetAssignmentMemberValue
    | StreamsGroupCurrentMemberAssignmentValue
    | StreamsGroupTopologyValue
)

# Those of all kinds of groups whose members the coordinator assigns.
ModernGroupKey: TypeAlias = ConsumerGroupKey | ShareGroupKey | StreamsGroupKey
ModernGroupValue: TypeAlias = ConsumerGroupValue | ShareGroupValue | StreamsGroupValue

# Key and value by the type of the key, the number in front of it. The values have one version.
_MODERN_GROUP_RECORDS: Final[Mapping[int, tuple[type[ModernGroupKey], type[ModernGroupValue]]]] = {
    key.SPEC.versions.first: (key, value)
    for key, value in (
        *CONSUMER_GROUP_RECORDS,
        *SHARE_GROUP_RECORDS,
        *STREAMS_GROUP_RECORDS,
    )
}
_VALUE_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class ModernGroupRecord:
    """A record of a group whose members the coordinator assigns: the new value of a key; None is
    its tombstone."""

    key: ModernGroupKey
    value: ModernGroupValue | None

    @property
    def group_id(self) -> str:
        return self.key.group_id


GroupRecord: TypeAlias = OffsetCommitted | GroupStored | ModernGroupRecord


def encode_record(
    record: GroupRecord, protocol: InterBrokerProtocol = LATEST
) -> tuple[bytes, bytes | None]:
    """Encode a record as key and value, in a version that brokers of ``protocol`` can read. Raises
    EncodeError for a text over 32 KB."""
    if isinstance(record, ModernGroupRecord):
        key, value = record.key, record.value
        return (
            encode_versioned(key, type(key).SPEC.versions.first),
            None if value is None else encode_versioned(value, _VALUE_VERSION),
        )
    if isinstance(record, GroupStored):
        return (
            encode_versioned(GroupMetadataKey(record.group_id), GROUP_METADATA_KEY_VERSION),
            None
            if record.value is None
            else encode_versioned(record.value, protocol.group_metadata_value_version),
        )
    topic, partition = record.topic_partition
    offset_key = encode_versioned(
        OffsetCommitKey(record.group_id, topic, partition), OFFSET_COMMIT_KEY_VERSIONS[-1]
    )
    committed = record.committed
    if committed is None:
        return offset_key, None
    expires = committed.expire_ms != NO_TIMESTAMP
    offset = OffsetCommitValue(
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.commit_ms,
        committed.expire_ms,
    )
    return offset_key, encode_versioned(offset, protocol.offset_commit_value_version(expires))


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record; None for a key type of a later Kafka.

    Raises DecodeError for malformed bytes and for an inconsistent group.
    """
    version = version_of(key)
    if version in OFFSET_COMMIT_KEY_VERSIONS:
        offset_key = decode(OffsetCommitKey, version, key, VERSION_BYTES)
        topic_partition = TopicPartition(offset_key.topic, offset_key.partition)
        return OffsetCommitted(
            offset_key.group, topic_partition, None if value is None else _committed(value)
        )
    if version != GROUP_METADATA_KEY_VERSION:
        return _decode_modern_group(version, key, value)
    group_key, _ = decode_versioned(GroupMetadataKey, key)
    if value is None:
        return GroupStored(group_key.group, None)
    stored, version = decode_versioned(GroupMetadataValue, value)
    if version == 0:
        for member in stored.members:
            member.rebalance_timeout = member.session_timeout
    _check(stored)
    return GroupStored(group_key.group, stored)


def _decode_modern_group(number: int, key: bytes, value: bytes | None) -> ModernGroupRecord | None:
    types = _MODERN_GROUP_RECORDS.get(number)
    if types is None:
        return None
    key_type, value_type = types
    return ModernGroupRecord(
        decode(key_type, number, key, VERSION_BYTES),
        None if value is None else decode_versioned(value_type, value, _VALUE_VERSION)[0],
    )


def _check(stored: GroupMetadataValue) -> None:
    """Raise DecodeError for an inconsistent group.

    Clients with write access to the topic can append any record; an inconsistent one must not
    stop this coordinator, or the next one.
    """
    if not 0 <= stored.generation < _LAST_GENERATION:
        raise DecodeError(f"generation {stored.generation}")
    member_ids = {member.member_id for member in stored.members}
    if len(member_ids) < len(stored.members):
        raise DecodeError("two members with one id")
    instance_ids = [
        member.group_instance_id
        for member in stored.members
        if member.group_instance_id is not None
    ]
    if len(set(instance_ids)) < len(instance_ids):
        raise DecodeError("two members with one instance id")
    if stored.leader is not None and stored.leader not in member_ids:
        raise DecodeError("a leader that is no member")
    if stored.members and stored.protocol is None:
        raise DecodeError("members without a protocol")


def _committed(value: bytes) -> CommittedOffset:
    read = decode(OffsetCommitValue, version_of(value), value, VERSION_BYTES)
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp
    )
