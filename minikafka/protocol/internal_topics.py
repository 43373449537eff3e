"""The records of the topics of coordinators, as JSON by their types: offsets, groups, transactions,
the state of share groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.message_json import to_json
from minikafka.protocol.messages.consumer_group_log import CONSUMER_GROUP_RECORDS
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.messages.share_group_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minikafka.protocol.messages.share_group_membership_log import SHARE_GROUP_RECORDS
from minikafka.protocol.messages.streams_group_log import STREAMS_GROUP_RECORDS
from minikafka.protocol.schema import Message
from minikafka.protocol.versioned import decode_versioned, version_of

JsonObject: TypeAlias = dict[str, Any]
# Keys with their values. The versions of a key are its record types.
RecordTypes: TypeAlias = Sequence[tuple[type[Message], type[Message]]]

OFFSETS_RECORDS: Final[RecordTypes] = (
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    *CONSUMER_GROUP_RECORDS,
    *SHARE_GROUP_RECORDS,
    *STREAMS_GROUP_RECORDS,
)
SHARE_STATE_RECORDS: Final[RecordTypes] = (
    (ShareSnapshotKey, ShareSnapshotValue),
    (ShareUpdateKey, ShareUpdateValue),
)
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class UnknownRecordType(DecodeError):
    """A key has a version that no record type has: ``kind``."""

    def __init__(self, kind: int) -> None:
        super().__init__(f"the record type {kind} is not known")
        self.kind = kind


def coordinator_record(
    types: RecordTypes, key: bytes, value: bytes | None
) -> tuple[JsonObject, JsonObject | None]:
    """Return a key as its type and data, and the value as its version and data; None if the record
    deletes. Raises DecodeError."""
    kind = version_of(key)
    found = next((row for row in types if row[0].SPEC.versions.has(kind)), None)
    if found is None:
        raise UnknownRecordType(kind)
    shown = {"type": str(kind), "data": to_json(*decode_versioned(found[0], key))}
    return shown, None if value is None else _value(*decode_versioned(found[1], value))


def _value(message: Message, version: int) -> JsonObject:
    data = to_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == PROTOCOL_TYPE:
        for member, shown in zip(message.members, data["members"], strict=True):
            _open(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _open(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return {"version": str(version), "data": data}


def _open(shown: JsonObject, field: str, cls: type[Message], content: bytes) -> None:
    """Replace the bytes in ``shown[field]`` by the decoded message of the consumer protocol.

    Bytes that cannot be decoded are kept."""
    try:
        shown[field] = to_json(*decode_versioned(cls, content, cls.SPEC.versions.last))
    except DecodeError:
        return
