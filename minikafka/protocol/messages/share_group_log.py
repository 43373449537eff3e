"""The records of ``__share_group_state``: how far a share group has come in a partition.

A key starts with an int16 for its kind, which counts as its version, and a value with its own
version; no value deletes. Kafka: ``ShareSnapshotKey`` and so on.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import In, Int8, Int16, Int32, Int64, Message, String, Uuid, data


@dataclass(slots=True)
class LoggedBatch:
    """Records of one delivery state, both offsets inclusive: 0 available, 2 acknowledged, 4
    archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@dataclass(slots=True)
class ShareSnapshotKey(Message):
    """A share-partition."""

    SPEC = data("0")

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@dataclass(slots=True)
class ShareSnapshotValue(Message):
    """The whole state of a share-partition. Timestamps are milliseconds.

    ``delivery_complete_count`` is the number of offsets from the start offset on that need no
    delivery any more, or -1 (KIP-1226)."""

    SPEC = data("0", flexible="0+")

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, In("0+", tag=0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[LoggedBatch] = field(default_factory=list)


@dataclass(slots=True)
class ShareUpdateKey(Message):
    """A share-partition."""

    SPEC = data("1")

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@dataclass(slots=True)
class ShareUpdateValue(Message):
    """A change of the state since the snapshot with this epoch. ``start_offset`` is -1 if it has
    not changed."""

    SPEC = data("0", flexible="0+")

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, In("0+", tag=0)] = -1
    state_batches: list[LoggedBatch] = field(default_factory=list)
