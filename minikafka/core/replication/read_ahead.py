"""Read-ahead of followers: whether the next Fetch may be sent before the last is appended."""

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


class FetchedRecords(NamedTuple):
    """The response for one partition that was fetched with ``state``."""

    topic_partition: TopicPartition
    state: PartitionFetchState
    records: Buffer
    high_watermark: int  # the leader's


def read_ahead(
    fetched: Iterable[FetchedRecords],
) -> dict[TopicPartition, PartitionFetchState] | None:
    """Return the fetch states after the append, if the next Fetch may be sent before the append.

    Leader and follower then work at the same time. None if the Fetch has to wait for the append, or
    if there is nothing to append.

    A fetch offset acknowledges all records below it: by it the leader advances the high watermark
    and adds the follower to the ISR. An offset below the leader's high watermark has neither
    effect: all replicas in sync are beyond it, no follower joins the ISR from there, and the high
    watermark does not move back within the leader epoch that the request carries. So a follower far
    behind fetches ahead, and a follower in sync never does.
    """
    ahead: dict[TopicPartition, PartitionFetchState] = {}
    grows = False
    for topic_partition, state, records, high_watermark in fetched:
        next_offset, epoch = state.fetch_offset, None
        if records:
            next_offset, epoch = end_of_batches(records, next_offset)
            if not state.fetch_offset < next_offset < high_watermark:
                return None
            grows = True
        ahead[topic_partition] = states.fetched(state, next_offset, epoch, high_watermark)
    return ahead if grows else None


def end_of_batches(records: Buffer, start: int) -> tuple[int, int | None]:
    """Return the offset after the last complete batch, and the leader epoch of that batch (None if
    it has none). ``start`` and None if no batch is complete. Headers are read, not validated."""
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
