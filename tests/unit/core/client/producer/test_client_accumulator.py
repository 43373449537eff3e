"""Batches per partition: when they go, in which order, and what comes back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.producer.accumulator import (
    BATCH_OVERHEAD_BYTES,
    Accumulator,
    AccumulatorConfig,
    PendingRecord,
    ProducerBatch,
    Ready,
    record_size_bytes,
)
from minikafka.kernel.cluster import TopicPartition

A, B, C = (TopicPartition("t", partition) for partition in range(3))
LEADERS = {A: 1, B: 1, C: 2}


def record(text: bytes = b"x" * 79) -> PendingRecord:
    """A record of 100 bytes by our estimate."""
    return (0, None, text, [])


def accumulator(**keys: int) -> Accumulator[str]:
    return Accumulator(AccumulatorConfig(**keys))


def put(acc: Accumulator[str], tp: TopicPartition, token: str, now_ms: int = 0) -> bool:
    return acc.append(tp, record(), record_size_bytes(record()), token, now_ms)


def test_size_is_an_upper_bound_with_headers_and_nulls() -> None:
    assert record_size_bytes((0, None, None, [])) == 21
    assert record_size_bytes(record()) == 100
    assert record_size_bytes((0, b"key", b"v", [("h", b"12"), ("i", None)])) == 21 + 4 + 13 + 11


def test_the_defaults_are_those_of_kafka() -> None:
    assert AccumulatorConfig() == AccumulatorConfig(
        batch_size=16_384,
        linger_ms=0,
        buffer_memory=33_554_432,
        max_request_size=1_048_576,
        delivery_timeout_ms=120_000,
        retries=2_147_483_647,
        in_flight=1,
    )


def test_a_batch_goes_at_once_without_linger() -> None:
    acc = accumulator()
    assert put(acc, A, "a")
    assert not acc.is_empty
    ready = acc.ready(0, LEADERS)
    assert ready.partitions_by_leader == {1: [A]}
    (batch,) = acc.drain(ready.partitions_by_leader[1])
    assert batch.tokens == ["a"]
    assert not acc.is_empty
    acc.complete(batch)
    assert acc.is_empty
    assert acc.used_bytes == 0


def test_lingering_batch_reports_when_it_is_ready() -> None:
    acc = accumulator(linger_ms=20)
    put(acc, A, "a", now_ms=5)
    assert not put(acc, A, "b", now_ms=10)
    assert acc.ready(10, LEADERS).partitions_by_leader == {}
    assert acc.ready(10, LEADERS).next_ms == 25
    assert acc.ready(25, LEADERS).partitions_by_leader == {1: [A]}


def test_a_full_batch_does_not_linger() -> None:
    acc = accumulator(linger_ms=1_000, batch_size=BATCH_OVERHEAD_BYTES + 200)
    assert put(acc, A, "a")
    assert put(acc, A, "b"), "full"
    assert acc.ready(0, LEADERS).partitions_by_leader == {1: [A]}
    assert put(acc, A, "c"), "a new one"
    (batch,) = acc.drain([A])
    assert batch.tokens == ["a", "b"]


def test_a_flush_does_not_linger() -> None:
    acc = accumulator(linger_ms=1_000)
    put(acc, C, "sent")
    acc.drain([C])
    put(acc, A, "a")
    put(acc, A, "b")
    acc.begin_flush()
    acc.begin_flush()
    acc.end_flush()
    assert acc.ready(0, LEADERS).partitions_by_leader == {1: [A]}
    acc.end_flush()
    assert acc.ready(0, LEADERS).partitions_by_leader == {}


def test_a_flush_ends_with_the_last_batch_that_was_here_whatever_becomes_of_it() -> None:
    acc = accumulator()
    put(acc, A, "a")
    put(acc, A, "b")
    put(acc, B, "c")
    (both, other) = acc.drain([A, B])
    mark = acc.begin_flush()
    put(acc, A, "later")
    assert acc.split(both)
    acc.complete(other)
    for _ in range(2):
        assert not acc.is_flushed(mark)
        (half,) = acc.drain([A])
        assert not acc.is_flushed(mark), "on its way"
        assert acc.retry(half, 0, 100)
        assert acc.drain([A]) == [half]
        acc.complete(half)
    assert acc.is_flushed(mark)
    acc.end_flush()
    assert not acc.is_flushed(acc.begin_flush())


def test_a_record_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    acc = accumulator()
    for good in ("a", None):
        if good:
            put(acc, A, good)
        used = acc.used_bytes
        bad = (1.5, None, b"v", [("h", "no bytes")])
        with pytest.raises((TypeError, AttributeError)):
            acc.append(A if good else B, bad, 100, "bad", 0)  # type: ignore[arg-type]
        assert acc.used_bytes == used
    assert [batch.tokens for batch in acc.take_all()] == [["a"]]


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    acc = accumulator(batch_size=50)
    put(acc, A, "a")
    put(acc, A, "b")
    assert [batch.tokens for batch in acc.drain([A])] == [["a"]]


@pytest.mark.mission("PRD-3")
def test_ready_partitions_are_grouped_by_leader_oldest_first() -> None:
    acc = accumulator()
    put(acc, B, "b", now_ms=1)
    put(acc, C, "c", now_ms=2)
    put(acc, A, "a", now_ms=3)
    assert acc.ready(5, LEADERS).partitions_by_leader == {1: [B, A], 2: [C]}


def test_a_partition_without_leader_is_named_by_its_topic() -> None:
    acc = accumulator()
    put(acc, A, "a")
    ready = acc.ready(0, {})
    assert ready.partitions_by_leader == {}
    assert ready.unknown_topics == {"t"}
    assert ready.next_ms == 120_000


def test_one_batch_of_a_partition_is_in_flight_at_a_time() -> None:
    acc = accumulator(batch_size=50)
    put(acc, A, "a")
    put(acc, A, "b")
    (first,) = acc.drain([A])
    assert acc.drain([A]) == []
    assert acc.ready(0, LEADERS).partitions_by_leader == {}
    acc.complete(first)
    assert acc.ready(0, LEADERS).partitions_by_leader == {1: [A]}


def test_one_request_holds_so_much() -> None:
    acc = accumulator(max_request_size=400)
    for tp in (A, B, C):
        put(acc, tp, tp.topic)
    assert [batch.topic_partition for batch in acc.drain([A, B, C])] == [A, B]
    assert [batch.topic_partition for batch in acc.drain([A, B, C])] == [C]


def test_a_retry_comes_first_and_waits_for_its_backoff() -> None:
    acc = accumulator(batch_size=50)
    put(acc, A, "a")
    put(acc, A, "b")
    now = 0
    for backoff_ms in (100, 200, 50):
        (batch,) = acc.drain([A])
        assert batch.tokens == ["a"]
        assert acc.retry(batch, now, backoff_ms)
        assert acc.ready(now, LEADERS) == Ready(next_ms=now + backoff_ms)
        now += backoff_ms
        assert acc.ready(now, LEADERS).partitions_by_leader == {1: [A]}


@pytest.mark.mission("CFAST-2")
def test_a_retry_goes_to_a_new_leader_at_once_and_its_attempts_are_counted_again() -> None:
    acc = accumulator()
    put(acc, A, "a")

    def attempts_there(now_ms: int, leader_epoch: int) -> int:
        """Send the batch to the leader of that epoch, which refuses it."""

        def sent(batch: ProducerBatch[str], others: bool) -> bool:
            batch.sent_to(leader_epoch)
            return True

        (batch,) = acc.drain([A], sent)
        assert acc.retry(batch, now_ms, 100)
        assert acc.ready(now_ms, LEADERS, lambda _: leader_epoch) == Ready(next_ms=now_ms + 100)
        return batch.attempts_there

    assert attempts_there(0, 5) == 1
    assert attempts_there(100, 5) == 2
    assert acc.ready(101, LEADERS, lambda _: 4) == Ready(next_ms=200), "older metadata"
    assert acc.ready(101, LEADERS, lambda _: 6).partitions_by_leader == {1: [A]}
    assert acc.ready(101, {}, lambda _: 6).unknown_topics == {"t"}, "it has no leader now"
    assert attempts_there(101, 6) == 1


def test_nothing_is_added_to_a_batch_that_was_sent_once() -> None:
    acc = accumulator()
    put(acc, A, "a")
    (batch,) = acc.drain([A])
    acc.retry(batch, 0, 100)
    assert not acc.fits_open_batch(A, 1)
    put(acc, A, "b")
    assert acc.drain([A])[0].tokens == ["a"]


def test_no_retry_beyond_the_delivery_time_out() -> None:
    acc = accumulator(delivery_timeout_ms=150)
    put(acc, A, "a")
    (batch,) = acc.drain([A])
    assert not acc.retry(batch, 60, 100)
    acc.complete(batch)
    assert acc.is_empty


def test_queued_batches_expire_even_behind_one_in_flight() -> None:
    acc = accumulator(batch_size=50, delivery_timeout_ms=150)
    put(acc, A, "a", now_ms=0)
    acc.drain([A])
    put(acc, A, "b", now_ms=10)
    put(acc, A, "c", now_ms=20)
    assert acc.expire(159) == []
    assert acc.ready(159, LEADERS).next_ms == 160
    assert [batch.tokens for batch in acc.expire(160)] == [["b"]]
    assert [batch.tokens for batch in acc.expire(500)] == [["c"]]
    assert acc.used_bytes == BATCH_OVERHEAD_BYTES + 100


def test_a_batch_too_large_is_sent_again_in_halves() -> None:
    acc = accumulator()
    for token in "abc":
        put(acc, A, token)
    put(acc, B, "other")
    (batch,) = acc.drain([A])
    put(acc, A, "d")
    assert acc.split(batch)
    order = []
    while drained := acc.drain([A]):
        order.append(drained[0].tokens)
        acc.complete(drained[0])
    assert order == [["a"], ["b", "c"], ["d"]]
    (single,) = acc.drain([B])
    assert not acc.split(single)
    acc.complete(single)
    assert acc.used_bytes == 0


def test_memory_is_bounded() -> None:
    acc = accumulator(buffer_memory=2 * (BATCH_OVERHEAD_BYTES + 100))
    assert acc.has_memory(BATCH_OVERHEAD_BYTES + 200)
    assert not acc.has_memory(BATCH_OVERHEAD_BYTES + 201), "larger than the whole buffer"
    put(acc, A, "a")
    put(acc, B, "b")
    assert not acc.has_memory(100)
    (batch,) = acc.drain([A])
    assert not acc.has_memory(100), "in flight counts"
    acc.complete(batch)
    assert acc.has_memory(100)


def test_a_record_goes_on_with_the_open_batch_as_long_as_it_fits() -> None:
    acc = accumulator(batch_size=BATCH_OVERHEAD_BYTES + 300)
    assert not acc.fits_open_batch(A, 1), "no batch is open"
    assert acc.append_to_open(A, record(), 100, "a") is None
    put(acc, A, "a")
    assert acc.fits_open_batch(A, 200)
    assert not acc.fits_open_batch(A, 201)
    assert acc.append_to_open(A, record(), 201, "large") is None
    assert acc.append_to_open(A, record(), 100, "b") is False
    assert acc.append_to_open(A, record(), 100, "c") is True, "full"
    assert acc.append_to_open(A, record(), 1, "d") is None
    assert acc.used_bytes == BATCH_OVERHEAD_BYTES + 300
    assert [batch.tokens for batch in acc.drain([A])] == [["a", "b", "c"]]


def test_an_open_batch_takes_no_more_than_the_memory_holds() -> None:
    acc = accumulator(buffer_memory=BATCH_OVERHEAD_BYTES + 200)
    put(acc, A, "a")
    assert acc.append_to_open(A, record(), 101, "large") is None
    assert acc.append_to_open(A, record(), 100, "b") is False
    assert acc.append_to_open(A, record(), 1, "c") is None
    assert acc.used_bytes == BATCH_OVERHEAD_BYTES + 200


def test_partition_has_several_batches_in_flight_until_limited_to_one() -> None:
    acc = accumulator(batch_size=50, in_flight=2)
    for token in "abcd":
        put(acc, A, token)
    (first,), (second,) = acc.drain([A]), acc.drain([A])
    assert (first.tokens, second.tokens) == (["a"], ["b"])
    assert acc.drain([A]) == [], "two are on their way"
    acc.one_in_flight()
    acc.complete(first)
    assert acc.drain([A]) == [], "one is on its way"
    acc.complete(second)
    assert [batch.tokens for batch in acc.drain([A])] == [["c"]]
    assert acc.drain([A]) == []


def test_a_retried_batch_goes_alone_and_is_not_passed() -> None:
    acc = accumulator(batch_size=50, in_flight=3)
    for token in "abc":
        put(acc, A, token)
    (first,), (second,) = acc.drain([A]), acc.drain([A])
    assert acc.retry(second, 0, 100)
    assert acc.drain([A]) == []
    assert acc.retry(first, 0, 100)
    assert acc.drain([A]) == [first]
    assert acc.drain([A]) == []
    acc.complete(first)
    assert acc.drain([A]) == [second]
    assert [batch.tokens for batch in acc.drain([A])] == [["c"]]


def test_halves_keep_their_place_and_go_one_by_one() -> None:
    acc = accumulator(batch_size=BATCH_OVERHEAD_BYTES + 200, in_flight=5)
    put(acc, B, "other")
    for token in "abcd":
        put(acc, A, token)
    (first,), (second,) = acc.drain([A]), acc.drain([A])
    assert acc.split(second)
    assert acc.retry(first, 0, 100)
    order = []
    while drained := acc.drain([A]):
        order.append(drained[0].tokens)
        assert acc.drain([A]) == []
        acc.complete(drained[0])
    assert order == [["a", "b"], ["c"], ["d"]]


def test_a_flush_does_not_wait_for_batches_that_began_after_it() -> None:
    acc = accumulator()
    put(acc, A, "before")
    (before,) = acc.drain([A])
    mark = acc.begin_flush()
    put(acc, B, "after")
    put(acc, B, "after, too")
    acc.complete(before)
    assert acc.is_flushed(mark), "queued"
    (after,) = acc.drain([B])
    assert acc.is_flushed(mark), "on its way"
    assert acc.split(after)
    assert acc.is_flushed(mark), "in halves"


def test_a_batch_does_not_linger_when_the_next_has_begun() -> None:
    acc = accumulator(linger_ms=1_000, batch_size=BATCH_OVERHEAD_BYTES + 150)
    put(acc, A, "a")
    assert acc.ready(0, LEADERS).partitions_by_leader == {}
    put(acc, A, "b")
    assert acc.ready(0, LEADERS).partitions_by_leader == {1: [A]}


def test_a_retried_batch_does_not_linger() -> None:
    acc = accumulator(linger_ms=1_000)
    put(acc, A, "a")
    (batch,) = acc.drain([A])
    assert acc.retry(batch, 0, 100)
    assert acc.ready(0, LEADERS).next_ms == 100
    assert acc.ready(100, LEADERS).partitions_by_leader == {1: [A]}


@pytest.mark.parametrize("later_first", [False, True])
def test_the_next_look_is_for_the_partition_that_is_due_first(later_first: bool) -> None:
    acc = accumulator(linger_ms=20)
    for tp, now_ms in ((A, 7), (B, 3)) if later_first else ((A, 3), (B, 7)):
        put(acc, tp, "x", now_ms)
    assert acc.ready(10, LEADERS).next_ms == 23


def test_no_linger_outlasts_the_delivery_time_out() -> None:
    acc = accumulator(linger_ms=200, delivery_timeout_ms=150)
    put(acc, A, "a")
    assert acc.ready(0, LEADERS).next_ms == 150


def test_a_request_may_be_filled_to_the_last_byte() -> None:
    acc = accumulator(max_request_size=2 * (BATCH_OVERHEAD_BYTES + 100))
    put(acc, A, "a")
    put(acc, B, "b")
    assert len(acc.drain([A, B])) == 2


def test_the_first_batch_of_a_request_goes_whatever_its_size() -> None:
    acc = accumulator(max_request_size=10)
    put(acc, A, "a")
    put(acc, B, "b")
    assert [batch.tokens for batch in acc.drain([A, B])] == [["a"]]


def test_retries_end_with_their_number_or_with_the_delivery_time_out() -> None:
    acc = accumulator(retries=1)
    put(acc, A, "a")
    (batch,) = acc.drain([A])
    assert acc.retry(batch, 0, 100)
    (batch,) = acc.drain([A])
    assert not acc.retry(batch, 0, 100), "one retry, no more"
    acc.complete(batch)
    acc = accumulator(delivery_timeout_ms=150)
    put(acc, A, "a")
    (batch,) = acc.drain([A])
    assert not acc.retry(batch, 50, 100), "it would be sent again when its time is up"


def test_take_queued_leaves_batches_in_flight() -> None:
    acc = accumulator()
    put(acc, A, "a")
    (flying,) = acc.drain([A])
    put(acc, A, "b")
    put(acc, B, "c")
    assert [batch.tokens for batch in acc.take_queued()] == [["b"], ["c"]]
    assert acc.used_bytes == flying.size_bytes
    put(acc, B, "d")
    assert [batch.tokens for batch in acc.drain([A, B])] == [["d"]], "no batch was left open"
    acc.complete(flying)


def test_take_all_returns_batches_in_flight_and_queued() -> None:
    acc = accumulator()
    put(acc, A, "a")
    acc.drain([A])
    put(acc, A, "b")
    assert [taken.tokens for taken in acc.take_all()] == [["a"], ["b"]]
    assert acc.is_empty
    assert acc.used_bytes == 0
    assert acc.append_to_open(A, record(), 0, "c") is None, "no batch was left open"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "drain", "complete", "retry", "split"]),
            st.sampled_from([A, B]),
        ),
        max_size=60,
    )
)
def test_tokens_leave_once_each_in_order_of_their_partition(steps: Any) -> None:
    acc: Accumulator[int] = Accumulator(AccumulatorConfig(batch_size=BATCH_OVERHEAD_BYTES + 300))
    in_flight: dict[Any, Any] = {}
    sent: dict[Any, list[Any]] = {A: [], B: []}
    put_in: dict[Any, list[Any]] = {A: [], B: []}
    now = 0
    for step, tp in steps:
        now += 10
        if step == "put":
            token = len(put_in[tp])
            put_in[tp].append(token)
            acc.append(tp, record(), 100, token, now)
        elif step == "drain":
            for batch in acc.drain([tp]):
                in_flight[tp] = batch
        elif tp in in_flight:
            batch = in_flight.pop(tp)
            if step == "retry" and acc.retry(batch, now, 100):
                continue
            if step == "split" and acc.split(batch):
                continue
            sent[tp].extend(batch.tokens)
            acc.complete(batch)
    for tp, batch in in_flight.items():
        sent[tp].extend(batch.tokens)
        acc.complete(batch)
    for tp in (A, B):
        while drained := acc.drain([tp]):
            sent[tp].extend(drained[0].tokens)
            acc.complete(drained[0])
    assert sent == put_in
    assert acc.is_empty
    assert acc.used_bytes == 0
