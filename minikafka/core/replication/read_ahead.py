"""Fetching ahead: when a follower may send the next Fetch before it has appended the last one."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD

_LAST_OFFSET_DELTA: Final = 23
_read_prefix = Struct(">qii").unpack_from  # base offset, length, leader epoch
_read_int = Struct(">i").unpack_from


class Brought(NamedTuple):
    """The response for a partition that was fetched with ``state``."""

    topic_partition: TopicPartition
    state: PartitionFetchState
    records: Buffer
    high_watermark: int  # the leader's


def read_ahead(
    brought: Iterable[Brought],
) -> dict[TopicPartition, PartitionFetchState] | None:
    """The states of the partitions as they will be after the append, if the next Fetch may be sent
    before it, so that leader and follower work at the same time. None if it may not, or if there
    is nothing to append.

    A fetch offset is a promise: the leader commits and acknowledges records by it, and adds a
    follower to the ISR. Below the leader's high watermark it has no such effect: every replica in
    sync is beyond that offset, no follower joins the ISR from there, and the high watermark does
    not move back in this leader epoch, which the request carries. So a follower far behind fetches
    ahead, and one in sync never does.
    """
    ahead: dict[TopicPartition, PartitionFetchState] = {}
    grows = False
    for topic_partition, state, records, high_watermark in brought:
        next_offset, epoch = state.fetch_offset, None
        if records:
            next_offset, epoch = end_of_batches(records, next_offset)
            if not state.fetch_offset < next_offset < high_watermark:
                return None
            grows = True
        ahead[topic_partition] = states.fetched(state, next_offset, epoch, high_watermark)
    return ahead if grows else None


def end_of_batches(records: Buffer, start: int) -> tuple[int, int | None]:
    """The offset after the last whole batch, and that batch's leader epoch if it has one, as in the
    headers, which are not checked here. ``start`` and None without a whole batch."""
    position, end = 0, len(records)
    next_offset, epoch = start, None
    while end - position >= BATCH_OVERHEAD:
        base_offset, length, leader_epoch = _read_prefix(records, position)
        size = length + LOG_OVERHEAD
        if size < BATCH_OVERHEAD or size > end - position:
            break
        (last_offset_delta,) = _read_int(records, position + _LAST_OFFSET_DELTA)
        next_offset = base_offset + last_offset_delta + 1
        epoch = leader_epoch if leader_epoch > NO_EPOCH else None
        position += size
    return next_offset, epoch
