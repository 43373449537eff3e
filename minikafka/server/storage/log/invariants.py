"""Checks the invariants of a log by reading all of its batches, for simulations and tests.

``UnifiedLog`` and ``LogSegment`` assert those that can be checked without reading: where they set
an offset, and where an offset leaves the log.
"""

from __future__ import annotations

from itertools import pairwise

from minikafka.protocol.records.batch import RecordBatch, crc_is_valid
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog


def check_log(log: UnifiedLog) -> None:
    """Raise AssertionError unless offsets, epochs and segments of ``log`` fit together."""
    name = str(log.topic_partition)
    start, end = log.log_start_offset, log.log_end_offset
    assert 0 <= start <= end, f"{name}: log start offset {start}, log end offset {end}"
    assert log.recovery_point <= end, (
        f"{name}: recovery point {log.recovery_point} is above the log end offset {end}"
    )
    bases = log.segments.base_offsets
    assert all(a < b for a, b in pairwise(bases)), (
        f"{name}: the base offsets of segments do not increase: {bases}"
    )
    following, epoch = 0, -1
    producer_epochs: dict[int, int] = {}
    for segment in log.segments:
        after = log.segments.after(segment.base_offset)
        next_base = end if after is None else after.base_offset
        for batch in _batches(segment):
            where = f"{name}: the batch at offset {batch.base_offset}"
            assert batch.base_offset >= max(following, segment.base_offset), (
                f"{where} overlaps an earlier one"
            )
            assert batch.next_offset <= next_base, (
                f"{where} ends after {next_base}, where the next segment starts"
            )
            assert batch.last_offset_delta >= batch.record_count - 1, (
                f"{where} has more records than offsets"
            )
            assert batch.partition_leader_epoch >= epoch, (
                f"{where} has a lower leader epoch than {epoch}"
            )
            following, epoch = batch.next_offset, batch.partition_leader_epoch
            if following > start and epoch >= 0:
                known = log.epochs.cache.epoch_for_offset(max(batch.base_offset, start))
                assert known == epoch, (
                    f"{where} has leader epoch {epoch}, but the cache says {known}"
                )
            if batch.producer_id >= 0:
                before = producer_epochs.get(batch.producer_id, -1)
                assert batch.producer_epoch >= before, (
                    f"{where} has a lower producer epoch than {before}"
                )
                producer_epochs[batch.producer_id] = batch.producer_epoch
    entries = log.epochs.cache.entries
    assert all(
        a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries)
    ), f"{name}: the leader epochs do not increase: {entries}"
    stable = log.last_stable_offset(end)
    assert start <= stable <= end, (
        f"{name}: last stable offset {stable} is outside of {start}..{end}"
    )


def _batches(segment: LogSegment) -> list[RecordBatch]:
    """Return all batches of a segment, after a check of their CRCs."""
    found = []
    for each in segment.batches():
        data = segment.read(each.batch.size_bytes, each.position)
        whole = each.batch._replace(buffer=data, position=0)
        assert crc_is_valid(whole), f"{segment.path}: the batch at {each.position} is corrupt"
        found.append(whole)
    return found
