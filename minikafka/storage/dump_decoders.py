"""What dump-log shows of the contents of a record: text, or the records of an internal topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.message_json import to_json
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.offsets_log import (
    GROUP_METADATA_KEY_VERSION,
    OFFSET_COMMIT_KEY_VERSIONS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue
from minikafka.protocol.records.record import Record
from minikafka.protocol.schema import Message
from minikafka.protocol.versioned import decode_versioned, version_of

Shown: TypeAlias = tuple[str | None, str | None]  # key and payload, None where there is none
RecordDecoder: TypeAlias = Callable[[Record], Shown]

_DELETED: Final = "<DELETE>"
_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def decode_text(record: Record) -> Shown:
    return _text(record.key), _text(record.value)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def decode_offsets_record(record: Record) -> Shown:
    """A record of ``__consumer_offsets``. Kafka: ``OffsetsMessageParser``."""
    at = f"at offset {record.offset}, skipping."
    if record.key is None:
        return f"Error {at} The message has no key.", None
    try:
        kind = version_of(record.key)
        key: type[Message]
        value: type[Message]
        if kind in OFFSET_COMMIT_KEY_VERSIONS:
            key, value = OffsetCommitKey, OffsetCommitValue
        elif kind == GROUP_METADATA_KEY_VERSION:
            key, value = GroupMetadataKey, GroupMetadataValue
        else:
            return f"Unknown record type {kind} {at}", None
        shown = {"type": str(kind), "data": to_json(*decode_versioned(key, record.key))}
        if record.value is None:
            return _json(shown), _DELETED
        return _json(shown), _json(_value(*decode_versioned(value, record.value)))
    except DecodeError as error:
        return f"Error {at} {error}", None


def _value(message: Message, version: int) -> dict[str, Any]:
    data = to_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == PROTOCOL_TYPE:
        for member, shown in zip(message.members, data["members"], strict=True):
            _open(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _open(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return {"version": str(version), "data": data}


def _open(shown: dict[str, Any], field: str, cls: type[Message], content: bytes) -> None:
    """Show what consumers say to each other; what cannot be read stays as it is."""
    try:
        shown[field] = to_json(*decode_versioned(cls, content, cls.SPEC.versions.last))
    except DecodeError:
        return


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode_transaction_record(record: Record) -> Shown:
    """A record of ``__transaction_state``. Kafka: ``TransactionLog.formatRecordKeyAndValue``."""
    at = f"at offset {record.offset}, skipping."
    if record.key is None:
        return f"Error {at} The message has no key.", None
    try:
        version = version_of(record.key)
        if not TransactionLogKey.SPEC.versions.has(version):
            return f"unknown::version={version}", None
        key, _ = decode_versioned(TransactionLogKey, record.key)
        shown = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return shown, _DELETED
        value, _ = decode_versioned(TransactionLogValue, record.value)
    except DecodeError as error:
        return f"Error {at} {error}", None
    status = value.transaction_status
    known = 0 <= status < len(_TRANSACTION_STATES)
    partitions = [
        f"{group.topic}-{partition}"
        for group in value.transaction_partitions or ()
        for partition in group.partition_ids
    ]
    return shown, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
        f"state={_TRANSACTION_STATES[status] if known else status},"
        f"partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )
