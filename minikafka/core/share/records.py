"""The records of ``__share_group_state``, encoded and decoded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from minikafka.core.share.persister import StateBatch, TopicIdPartition
from minikafka.kernel.cluster import parse_topic_id, topic_id_text
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.share_group_log import (
    LoggedBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minikafka.protocol.versioned import decode_versioned, encode_versioned, version_of

_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_VALUE_VERSION: Final = 0


class SharePartitionKey(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    where: TopicIdPartition

    @property
    def coordinator_key(self) -> str:
        """The key that finds the share coordinator of this share-partition."""
        return f"{self.group_id}:{topic_id_text(self.where.topic_id)}:{self.where.partition}"

    @classmethod
    def parse(cls, coordinator_key: str) -> SharePartitionKey | None:
        """Parse the key of a FindCoordinator request; None if it is malformed."""
        parts = coordinator_key.split(":")
        if len(parts) != 3 or not parts[0].strip() or not re.fullmatch(r"[+-]?\d{1,10}", parts[2]):
            return None
        try:
            where = TopicIdPartition(parse_topic_id(parts[1]), int(parts[2]))
        except ValueError:
            return None
        return cls(parts[0].strip(), where)


@dataclass(frozen=True, slots=True)
class ShareState:
    """The stored state of a share-partition. Times are wall time in milliseconds: ``created_ms``
    of the last snapshot that changed something, ``written_ms`` of the last one."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int = 0
    written_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """The record of a whole state; ``state`` None is its tombstone."""

    key: SharePartitionKey
    state: ShareState | None


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """The record of a change since the snapshot with ``snapshot_epoch``. ``start_offset`` is -1 if
    it has not changed."""

    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Encode a record as key and value. Raises EncodeError for a group id over 32 KB."""
    group_id, (topic_id, partition) = record.key
    if isinstance(record, ShareUpdate):
        key = encode_versioned(ShareUpdateKey(group_id, topic_id, partition), _UPDATE)
        update = ShareUpdateValue(
            record.snapshot_epoch,
            record.leader_epoch,
            record.start_offset,
            record.delivery_complete_count,
            _logged(record.batches),
        )
        return key, encode_versioned(update, _VALUE_VERSION)
    key = encode_versioned(ShareSnapshotKey(group_id, topic_id, partition), _SNAPSHOT)
    state = record.state
    if state is None:
        return key, None
    snapshot = ShareSnapshotValue(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        state.created_ms,
        state.written_ms,
        _logged(state.batches),
    )
    return key, encode_versioned(snapshot, _VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record; None for a record type of a later Kafka, or an update without a value, which
    changes nothing. Raises DecodeError if it is malformed."""
    kind = version_of(key)
    if kind == _SNAPSHOT:
        of_snapshot, _ = decode_versioned(ShareSnapshotKey, key)
        where = TopicIdPartition(of_snapshot.topic_id, of_snapshot.partition)
        share_partition = SharePartitionKey(of_snapshot.group_id, where)
        if value is None:
            return ShareSnapshot(share_partition, None)
        snapshot, _ = decode_versioned(ShareSnapshotValue, value)
        state = ShareState(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            _batches(snapshot.state_batches),
            snapshot.create_timestamp,
            snapshot.write_timestamp,
        )
        return ShareSnapshot(share_partition, state)
    if kind != _UPDATE or value is None:
        return None
    of_update, _ = decode_versioned(ShareUpdateKey, key)
    update, _ = decode_versioned(ShareUpdateValue, value)
    return ShareUpdate(
        SharePartitionKey(
            of_update.group_id, TopicIdPartition(of_update.topic_id, of_update.partition)
        ),
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        _batches(update.state_batches),
    )


def _logged(batches: Iterable[StateBatch]) -> list[LoggedBatch]:
    return [LoggedBatch(*batch) for batch in batches]


def _batches(rows: Iterable[LoggedBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count)
        for row in rows
    )
