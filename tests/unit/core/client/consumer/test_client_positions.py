"""Positions of a consumer: what to look up, what to fetch, what to hand out."""

import pytest

from minikafka.core.client.consumer.fetched import FetchedChunk, ReadPosition
from minikafka.core.client.consumer.positions import Positions
from minikafka.core.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def chunk(
    tp: TopicPartition, *offsets: int, end: int | None = None, epoch: int = 0
) -> FetchedChunk:
    """Records of one batch each; ``end`` appends a batch without visible records."""
    data = b"".join(
        build_batch([Record(o, 0, None, b"", [])], base_offset=o, leader_epoch=epoch)
        for o in offsets
    )
    if end is not None:
        last = build_batch(
            [(0, b"\0\0\0\1", b"\0\0\0\0\0\0", [])],
            base_offset=end - 1,
            leader_epoch=epoch,
            control=True,
            producer_id=1,
        )
        data += last
    return FetchedChunk(tp, data, ReadPosition(offsets[0] if offsets else 0))


def assigned(*at: tuple[TopicPartition, int]) -> Positions:
    positions = Positions()
    positions.assign([tp for tp, _ in at], None)
    for tp, offset in at:
        positions.seek(tp, offset)
    return positions


def test_new_partitions_are_looked_up_and_kept_ones_go_on() -> None:
    positions = Positions()
    positions.assign([A], EARLIEST_TIMESTAMP)
    assert positions.to_reset() == {A: EARLIEST_TIMESTAMP}
    assert positions.fetchable() == {}
    positions.resolve({A: (EARLIEST_TIMESTAMP, 5)})
    positions.assign([B, A], LATEST_TIMESTAMP)
    assert positions.assigned == [B, A]
    assert positions.to_reset() == {B: LATEST_TIMESTAMP}
    assert positions.fetchable() == {A: 5}
    positions.assign([B], None)
    assert positions.assigned == [B]


def test_special_timestamps_are_those_of_kafka() -> None:
    assert (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP) == (-1, -2)


def test_late_list_offsets_response_is_ignored() -> None:
    positions = assigned((A, 3))
    positions.resolve({A: (EARLIEST_TIMESTAMP, 0), B: (EARLIEST_TIMESTAMP, 0)})
    assert positions.position(A) == 3
    positions.reset(A, 1_000)
    positions.resolve({A: (EARLIEST_TIMESTAMP, 0)})
    assert positions.position(A) is None
    positions.resolve({A: (1_000, 7)})
    assert positions.position(A) == 7


def test_without_a_policy_a_seek_is_needed() -> None:
    positions = Positions()
    positions.assign([A], None)
    assert positions.to_reset() == positions.fetchable() == {}
    positions.seek(A, 0)
    assert positions.fetchable() == {A: 0}


def test_one_fetch_of_a_partition_is_ahead_of_the_application() -> None:
    positions = assigned((A, 0))
    positions.fetch_sent(A)
    assert positions.fetchable() == {}
    positions.fetched(A, chunk(A, 0, 1, 5, end=8), high_watermark=9)
    positions.fetch_done(A)
    assert positions.high_watermark(A) == 9
    assert positions.fetchable() == {A: 8}, "one fetch ahead"
    positions.fetched(A, chunk(A, 8), 9)
    assert positions.fetchable() == {}, "and no more"
    assert [record.offset for record in positions.take(2)] == [0, 1]
    assert positions.position(A) == 2
    assert positions.fetchable() == {}
    assert [record.offset for record in positions.take(1)] == [5]
    assert positions.position(A) == 6
    assert [record.offset for record in positions.take(2)] == [8]
    assert positions.position(A) == 9
    assert positions.fetchable() == {A: 9}
    assert positions.take(2) == []
    assert positions.buffered_bytes == 0


def test_a_fetch_that_shows_nothing_moves_the_position() -> None:
    positions = assigned((A, 4))
    positions.fetched(A, chunk(A, end=6), high_watermark=6)
    assert positions.take(1) == []
    assert positions.position(A) == 6
    assert positions.fetchable() == {A: 6}


def test_partitions_are_handed_out_in_the_order_of_arrival_and_take_turns_in_requests() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0), 1)
    positions.fetched(B, chunk(B, 0, 1), 2)
    assert [(r.partition, r.offset) for r in positions.take(2)] == [(0, 0), (1, 0)]
    assert [(r.partition, r.offset) for r in positions.take(2)] == [(1, 1)]
    positions.fetched(A, chunk(A, 1), 2)
    positions.take(1)
    assert list(positions.fetchable()) == [B, A]


def test_seek_drops_buffered_records_and_fetches_in_flight() -> None:
    positions = assigned((A, 0))
    positions.fetched(A, chunk(A, 0, 1), 2)
    positions.seek(A, 10)
    assert positions.take(5) == []
    assert positions.fetchable() == {A: 10}
    assert positions.is_at(A, 10)
    assert not positions.is_at(A, 0)
    assert not positions.is_at(B, 0)


def test_paused_partition_keeps_its_buffered_records() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0), 1)
    positions.fetched(B, chunk(B, 0), 1)
    positions.pause(A)
    assert [r.partition for r in positions.take(5)] == [1]
    assert positions.paused == [A]
    assert list(positions.fetchable()) == [B]
    positions.resume(A)
    assert [r.partition for r in positions.take(5)] == [0]


def test_unassigning_forgets_buffered_records() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0), 1)
    positions.assign([B], None)
    positions.fetch_done(A)
    assert positions.take(5) == []


def test_no_fetch_begins_while_too_much_is_buffered() -> None:
    positions = Positions(max_buffered_bytes=100)
    positions.assign([A, B], None)
    positions.seek(A, 0)
    positions.seek(B, 0)
    positions.fetched(A, chunk(A, 0, 1), 2)
    assert positions.buffered_bytes > 100
    assert positions.fetchable() == {}
    positions.take(2)
    assert positions.fetchable() == {B: 0, A: 2}
    positions.fetched(A, chunk(A, 2, 3), 4)
    positions.assign([B], None)
    assert positions.buffered_bytes == 0


def test_unreadable_batch_raises_once_and_blocks_its_partition_until_a_seek() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(B, chunk(B, 0), 1)
    positions.fetched(A, FetchedChunk(A, b"?" * 100, ReadPosition(0)), 1)
    assert [r.partition for r in positions.take(5)] == [1], "first what can be read"
    with pytest.raises(KafkaError):
        positions.take(5)
    assert positions.position(A) == 0
    assert positions.take(5) == []
    positions.seek(A, 7)
    assert positions.fetchable()[A] == 7


def test_a_group_starts_where_it_committed_or_by_the_policy() -> None:
    positions = Positions()
    positions.assign([A, B], EARLIEST_TIMESTAMP, committed_wanted=True)
    assert positions.to_initialize() == [A, B]
    assert positions.to_reset() == positions.fetchable() == {}
    positions.initialize(A, ReadPosition(5, 2), EARLIEST_TIMESTAMP)
    positions.initialize(B, None, EARLIEST_TIMESTAMP)
    assert (positions.position(A), positions.to_reset()) == (5, {B: EARLIEST_TIMESTAMP})
    positions.initialize(A, ReadPosition(9), None)
    assert positions.position(A) == 5, "a late answer"
    positions.assign([A, B], None, committed_wanted=True)
    assert positions.to_initialize() == []


def test_a_new_leader_puts_the_place_in_doubt() -> None:
    positions = assigned((A, 0))
    positions.note_leader_epoch(A, 3)
    assert positions.to_validate() == {}, "nothing was read yet"
    positions.fetched(A, chunk(A, 0, 1, epoch=3), 2)
    positions.take(1)
    positions.note_leader_epoch(A, 3)
    assert positions.to_validate() == {}
    positions.note_leader_epoch(A, 4)
    doubts = positions.to_validate()
    assert doubts == {A: (ReadPosition(2, 3), 4)}
    assert positions.fetchable() == {}
    assert positions.validated(A, doubts[A], ReadPosition(2, 3)) == 0
    assert positions.fetchable() == {A: 2}
    assert [r.offset for r in positions.take(5)] == [1]


def test_a_log_that_was_cut() -> None:
    positions = assigned((A, 0))
    positions.fetched(A, chunk(A, *range(6), epoch=3), 6)
    positions.take(4)
    for epoch, end, lost, place in ((4, 5, 0, 4), (5, 2, 2, 2)):
        positions.note_leader_epoch(A, epoch)
        (doubt,) = positions.to_validate().values()
        assert positions.validated(A, doubt, ReadPosition(end, 3)) == lost
        assert positions.position(A) == place
        assert positions.take(9) == [], "what is buffered may be wrong"
    assert positions.validated(A, doubt, ReadPosition(0, 0)) == 0, "a late answer"
    assert positions.position(A) == 2


def test_records_taken_for_an_iteration_are_not_consumed_yet() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0, 1, 2, epoch=4), 3)
    positions.fetched(B, chunk(B, 0, 1), 2)
    positions.unread.extend(positions.take(10))
    assert (positions.position(A), positions.position(B)) == (0, 0)
    assert positions.unread.popleft().offset == 0
    assert positions.place(A) == ReadPosition(1, 4)
    positions.pause(A)
    assert [record.partition for record in positions.unread] == [1, 1]
    assert positions.position(A) == 1, "what waits unread is fetched again"
    positions.seek(B, 1)
    assert not positions.unread
    positions.fetched(B, chunk(B, 1), 2)
    positions.unread.extend(positions.take(10))
    assert [record.offset for record in positions.take(10)] == [1], "a poll in between gets them"
    positions.fetched(B, chunk(B, 2), 3)
    positions.unread.extend(positions.take(10))
    positions.assign([A], None)
    assert not positions.unread


def test_buffer_of_a_paused_partition_does_not_block_other_fetches() -> None:
    size_bytes = chunk(A, 0).size_bytes
    positions = Positions(max_buffered_bytes=size_bytes)
    positions.assign([A, B], None)
    positions.seek(A, 0)
    positions.seek(B, 0)
    positions.fetched(A, chunk(A, 0), 1)
    assert positions.fetchable() == {}
    positions.pause(A)
    assert positions.fetchable() == {B: 0}
    positions.fetched(B, chunk(B, 0), 1)
    assert positions.fetchable() == {}
    positions.resume(A)
    assert [record.partition for record in positions.take(9)] == [0, 1]
    assert positions.fetchable() == {B: 1, A: 1}


def test_offsets_of_the_last_fetch_are_remembered() -> None:
    positions = assigned((A, 0))
    assert (positions.high_watermark(A), positions.last_stable_offset(A)) == (-1, -1)
    positions.fetched(A, chunk(A, 0), high_watermark=9, last_stable_offset=7)
    assert (positions.high_watermark(A), positions.last_stable_offset(A)) == (9, 7)
    positions.fetched(A, chunk(A, 1), high_watermark=10)
    assert positions.last_stable_offset(A) == -1, "a broker before 0.11 names none"


def test_a_fetch_that_brings_nothing_changes_nothing() -> None:
    positions = assigned((A, 4), (B, 0))
    positions.fetched(A, chunk(A, 4, 5), 6)
    positions.fetched(A, FetchedChunk(A, b"", ReadPosition(6)), 6)
    positions.fetched(B, FetchedChunk(B, b"", ReadPosition(0)), 0)
    assert (positions.position(A), positions.position(B)) == (4, 0)
    assert positions.fetchable() == {A: 6, B: 0}
    assert [record.offset for record in positions.take(9)] == [4, 5]


def test_turns_are_taken_in_the_order_of_the_last_arrival() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0), 1)
    positions.fetched(A, chunk(A, 1), 2)
    assert [record.offset for record in positions.take(2)] == [0, 1]
    positions.fetched(B, chunk(B, 0), 1)
    positions.fetched(A, chunk(A, 2), 3)
    assert [record.partition for record in positions.take(1)] == [1], "B has waited longer"
    positions.seek(A, 0)
    positions.fetched(B, chunk(B, 1), 2)
    positions.fetched(A, chunk(A, 0), 3)
    assert [record.partition for record in positions.take(1)] == [1], "what A had is dropped"


def test_bytes_are_counted_until_they_are_dropped_and_no_longer() -> None:
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, chunk(A, 0), 1)
    positions.fetched(B, chunk(B, 0), 1)
    buffered = positions.buffered_bytes
    positions.assign([A, B], None)
    assert positions.buffered_bytes == buffered, "both are kept"
    positions.seek(A, 10)
    assert positions.buffered_bytes == chunk(B, 0).size_bytes


def test_a_poll_between_takes_no_more_of_an_iteration_than_it_may() -> None:
    positions = assigned((A, 0))
    positions.fetched(A, chunk(A, 0, 1, 2), 3)
    positions.unread.extend(positions.take(3))
    assert [record.offset for record in positions.take(2)] == [0, 1]
    assert [record.offset for record in positions.take(2)] == [2]


def test_a_batch_that_cannot_be_read_is_fetched_again() -> None:
    positions = assigned((A, 0))
    broken = bytearray(build_batch([(0, None, b"value", [])]))
    broken[-2] ^= 1
    positions.fetched(A, FetchedChunk(A, bytes(broken), ReadPosition(0)), 1)
    assert positions.fetchable() == {A: 1}, "the next fetch"
    with pytest.raises(KafkaError):
        positions.take(5)
    assert positions.fetchable() == {A: 0}


def in_doubt() -> Positions:
    """A is at 3, after records of epoch 3, and a leader of epoch 4 has come. 2 was taken last."""
    positions = assigned((A, 0))
    positions.fetched(A, chunk(A, 0, 1, 2, epoch=3), 3)
    positions.take(9)
    positions.note_leader_epoch(A, 4)
    return positions


def test_position_accepts_no_fetch_response_while_in_doubt_or_being_reset() -> None:
    positions = in_doubt()
    assert not positions.is_at(A, 3), "in doubt"
    positions.unvalidated(A)
    assert positions.is_at(A, 3)
    assert positions.fetch_place(A) == ReadPosition(3, 3)
    assert positions.fetchable() == {A: 3}
    positions.reset(A, LATEST_TIMESTAMP)
    assert not positions.is_at(A, 3), "nowhere"


def test_late_responses_for_unassigned_partitions_are_ignored() -> None:
    positions = in_doubt()
    (doubt,) = positions.to_validate().values()
    positions.assign([B], EARLIEST_TIMESTAMP, committed_wanted=True)
    positions.initialize(A, ReadPosition(5), None)
    positions.note_leader_epoch(A, 9)
    positions.note_leader_epoch(B, 9)
    positions.unvalidated(A)
    assert positions.validated(A, doubt, ReadPosition(0)) == 0
    assert positions.to_initialize() == [B]
    assert positions.to_validate() == {}


@pytest.mark.parametrize(
    ("end", "lost", "place"),
    [
        (None, 0, ReadPosition(3, 3)),
        (ReadPosition(3, 2), 0, ReadPosition(3, 3)),
        (ReadPosition(2, 2), 1, ReadPosition(2, 2)),
    ],
)
def test_where_a_validated_consumer_goes_on(
    end: ReadPosition | None, lost: int, place: ReadPosition
) -> None:
    positions = in_doubt()
    (doubt,) = positions.to_validate().values()
    assert positions.validated(A, doubt, end) == lost
    assert positions.place(A) == place
    assert positions.fetchable() == {A: place.offset}


def test_truncation_at_the_position_drops_only_buffered_records() -> None:
    positions = assigned((A, 0))
    positions.fetched(A, chunk(A, 0, 1, 2, epoch=3), 3)
    positions.take(2)
    positions.note_leader_epoch(A, 4)
    (doubt,) = positions.to_validate().values()
    assert positions.validated(A, doubt, ReadPosition(2, 1)) == 0
    assert positions.place(A) == ReadPosition(2, 3), "the epoch of what was read"
    assert positions.fetchable() == {A: 2}


def test_a_seek_ends_a_doubt() -> None:
    positions = in_doubt()
    positions.seek(A, 1)
    assert positions.to_validate() == {}
    assert positions.fetchable() == {A: 1}


def test_a_seek_with_an_epoch_is_checked_against_the_leader_that_is_known() -> None:
    positions = in_doubt()
    positions.seek(A, 1, epoch=2)
    positions.note_leader_epoch(A, 4)
    assert positions.to_validate() == {A: (ReadPosition(1, 2), 4)}


def test_after_a_seek_without_an_epoch_the_known_leader_is_not_doubted() -> None:
    positions = in_doubt()
    positions.seek(A, 1)
    positions.fetched(A, chunk(A, 1, epoch=3), 3)
    positions.note_leader_epoch(A, 4)
    assert positions.to_validate() == {}


def test_a_fetch_that_brings_only_earlier_batches_leaves_the_position() -> None:
    positions = assigned((A, 5))
    data = build_batch([(0, None, b"", [])], base_offset=4)
    positions.fetched(A, FetchedChunk(A, data, ReadPosition(5)), 5)
    assert positions.take(9) == []
    assert positions.position(A) == 5
