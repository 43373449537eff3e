"""Positions of a consumer: what to look up, what to fetch, what to hand out."""

from minikafka.core.client.fetched import ConsumerRecord
from minikafka.core.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Positions
from minikafka.kernel.cluster import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def records(tp: TopicPartition, *offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(*tp, offset, 0, None, b"", [], 0) for offset in offsets]


def assigned(*at: tuple[TopicPartition, int]) -> Positions:
    positions = Positions()
    positions.assign([tp for tp, _ in at], None)
    for tp, offset in at:
        positions.seek(tp, offset)
    return positions


def test_new_partitions_are_looked_up_and_kept_ones_go_on():
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


def test_a_late_answer_to_a_lookup_is_ignored():
    positions = assigned((A, 3))
    positions.resolve({A: (EARLIEST_TIMESTAMP, 0), B: (EARLIEST_TIMESTAMP, 0)})
    assert positions.position(A) == 3
    positions.reset(A, 1_000)
    positions.resolve({A: (EARLIEST_TIMESTAMP, 0)})
    assert positions.position(A) is None
    positions.resolve({A: (1_000, 7)})
    assert positions.position(A) == 7


def test_without_a_policy_a_seek_is_needed():
    positions = Positions()
    positions.assign([A], None)
    assert positions.to_reset() == positions.fetchable() == {}
    positions.seek(A, 0)
    assert positions.fetchable() == {A: 0}


def test_a_partition_is_fetched_again_when_its_records_are_used_up():
    positions = assigned((A, 0))
    positions.fetch_sent(A)
    assert positions.fetchable() == {}
    positions.fetched(A, records(A, 0, 1, 5), next_position=8, high_watermark=9)
    positions.fetch_done(A)
    assert positions.fetchable() == {}
    assert positions.high_watermark(A) == 9
    assert [record.offset for record in positions.take(2)] == [0, 1]
    assert positions.position(A) == 5
    assert positions.fetchable() == {}
    assert [record.offset for record in positions.take(2)] == [5]
    assert positions.position(A) == 8
    assert positions.fetchable() == {A: 8}
    assert positions.take(2) == []


def test_a_fetch_that_shows_nothing_moves_the_position():
    positions = assigned((A, 4))
    positions.fetched(A, [], next_position=6, high_watermark=6)
    assert positions.fetchable() == {A: 6}


def test_partitions_are_handed_out_in_the_order_of_arrival_and_take_turns_in_requests():
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, records(A, 0), 1, 1)
    positions.fetched(B, records(B, 0, 1), 2, 2)
    assert [(r.partition, r.offset) for r in positions.take(2)] == [(0, 0), (1, 0)]
    assert [(r.partition, r.offset) for r in positions.take(2)] == [(1, 1)]
    positions.fetched(A, records(A, 1), 2, 2)
    positions.take(1)
    assert list(positions.fetchable()) == [B, A]


def test_a_seek_drops_what_is_buffered_and_what_is_under_way():
    positions = assigned((A, 0))
    positions.fetched(A, records(A, 0, 1), 2, 2)
    positions.seek(A, 10)
    assert positions.take(5) == []
    assert positions.fetchable() == {A: 10}
    assert positions.is_at(A, 10)
    assert not positions.is_at(A, 0)
    assert not positions.is_at(B, 0)


def test_a_paused_partition_keeps_what_it_has():
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, records(A, 0), 1, 1)
    positions.fetched(B, records(B, 0), 1, 1)
    positions.pause(A)
    assert [r.partition for r in positions.take(5)] == [1]
    assert list(positions.fetchable()) == [B]
    positions.resume(A)
    assert [r.partition for r in positions.take(5)] == [0]


def test_unassigning_forgets_buffered_records():
    positions = assigned((A, 0), (B, 0))
    positions.fetched(A, records(A, 0), 1, 1)
    positions.assign([B], None)
    positions.fetch_done(A)
    assert positions.take(5) == []
