"""Buckets: cyclic doubly linked lists with a sentinel."""

import pytest

from minikafka.core.timer import NOT_QUEUED, TaskCounter, TimerTaskEntry, TimerTaskList


def tasks(bucket: TimerTaskList[str]) -> list[str]:
    return [entry.task for entry in bucket]


@pytest.mark.mission("TW-15")
def test_an_empty_bucket_is_a_sentinel_that_points_at_itself() -> None:
    bucket = TimerTaskList[str](TaskCounter())
    assert not bucket
    assert bucket.root.next is bucket.root
    assert bucket.root.prev is bucket.root
    assert list(bucket) == []


@pytest.mark.mission("TW-2")
def test_entries_form_a_circle_in_the_order_of_arrival() -> None:
    counter = TaskCounter()
    bucket = TimerTaskList[str](counter)
    entries = [TimerTaskEntry(name, 7) for name in "abc"]
    for entry in entries:
        bucket.add(entry, 7)
    assert bucket
    assert counter.value == 3
    assert tasks(bucket) == ["a", "b", "c"]
    # Once round in either direction comes back to the sentinel.
    assert bucket.root.next.next.next.next is bucket.root
    assert bucket.root.prev is entries[2]
    assert entries[2].prev is entries[1]
    assert all(entry.bucket is bucket for entry in entries)


@pytest.mark.mission("TW-2")
@pytest.mark.parametrize("by_bucket", [True, False])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_removal_unlinks_without_walking(gone: int, by_bucket: bool) -> None:
    counter = TaskCounter()
    bucket = TimerTaskList[str](counter)
    entries = [TimerTaskEntry(name, 7) for name in "abc"]
    for entry in entries:
        bucket.add(entry, 7)
    for _ in range(2):  # the second time nothing happens
        if by_bucket:
            bucket.remove(entries[gone])
        else:
            entries[gone].cancel()
    assert counter.value == 2
    left = [name for name in "abc" if name != "abc"[gone]]
    assert tasks(bucket) == left
    assert [bucket.root.prev.task, bucket.root.prev.prev.task] == left[::-1]
    assert entries[gone].bucket is None
    # It keeps no neighbour alive.
    assert not hasattr(entries[gone], "next")
    assert not hasattr(entries[gone], "prev")


def test_an_entry_is_in_one_bucket_at_a_time() -> None:
    counter = TaskCounter()
    first, second = TimerTaskList[str](counter), TimerTaskList[str](counter)
    entry = TimerTaskEntry("a", 7)
    first.add(entry, 7)
    second.add(entry, 7)
    first.remove(entry)  # not its bucket any more
    assert not first
    assert tasks(second) == ["a"]
    assert counter.value == 1


def test_draining_leaves_the_bucket_ready_for_its_next_lap() -> None:
    counter = TaskCounter()
    bucket = TimerTaskList[str](counter)
    news = [bucket.add(TimerTaskEntry(name, 7), 7) for name in "abc"]
    assert news == [True, False, False]
    drained = bucket.drain()
    assert [entry.task for entry in drained] == ["a", "b", "c"]
    assert not any(hasattr(entry, link) for entry in drained for link in ("next", "prev"))
    assert not bucket
    assert counter.value == 0
    assert bucket.expiration_ms == NOT_QUEUED
    assert bucket.add(TimerTaskEntry("d", 7), 7)
