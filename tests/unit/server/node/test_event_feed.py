"""The last events of a broker's log."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import event_log, kept, tapped
from minikafka.server.node.event_feed import MAX_EVENTS, MAX_FACT, EventFeed
from tests.support.world.manual_clock import ManualClock


def feed_of(count: int = 0) -> EventFeed:
    feed = EventFeed(ManualClock())
    feed.start(1)
    for number in range(1, count + 1):
        feed.append("info", f"event_{number}", {})
    return feed


@pytest.mark.mission("GLASS-8")
@given(st.integers(0, 12), st.integers(-2, 15), st.integers(0, 6))
def test_a_reader_gets_each_event_once_and_the_number_of_lost_ones(
    lost: int, since: int, limit: int
) -> None:
    total = MAX_EVENTS + lost
    feed = feed_of(total)
    since = max(0, since)
    events, missed = feed.since(since, limit)
    assert missed == max(0, lost - since)
    assert [event.number for event in events] == list(
        range(since + missed + 1, min(total, since + missed + limit) + 1)
    )
    assert all(event.name == f"event_{event.number}" for event in events)


@pytest.mark.mission("GLASS-8")
def test_a_number_from_before_a_restart_begins_again() -> None:
    events, missed = feed_of(3).since(500, 10)
    assert ([event.number for event in events], missed) == ([1, 2, 3], 0)


@pytest.mark.mission("GLASS-8")
async def test_a_reader_waits_for_the_next_event() -> None:
    feed = feed_of(2)
    await feed.wait(1, 1_000)  # there is one
    waiting = asyncio.ensure_future(feed.wait(2, 1_000))
    await asyncio.sleep(0)
    assert feed.reaper.purgatory.delayed == 1
    thread = threading.Thread(target=feed.append, args=("info", "third", {}))  # from any thread
    thread.start()
    async with asyncio.timeout(10):
        await waiting
    thread.join()
    assert feed.reaper.purgatory.delayed == 0


@pytest.mark.mission("GLASS-8")
async def test_a_wait_ends_after_its_time_or_with_its_reader() -> None:
    clock = ManualClock()
    feed = EventFeed(clock)
    feed.start(1)
    waiting = asyncio.ensure_future(feed.wait(0, 1_000))
    gone = asyncio.ensure_future(feed.wait(0, 1_000))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    assert feed.reaper.purgatory.delayed == 1
    clock.advance(1_000)
    async with asyncio.timeout(10):
        await waiting
    assert feed.since(0, 10) == ([], 0)


@pytest.mark.mission("GLASS-8")
def test_events_go_to_the_tap_and_to_the_log() -> None:
    printed: list[tuple[str, str, dict[str, Any]]] = []
    feed = feed_of()
    with kept(lambda *event: printed.append(event), "DEBUG"), tapped(feed.append):
        log = event_log("part", broker=1)
        log.debug("unimportant")
        log.info("happened", size=3, what={1})
        log.bind(more=True).warning("odd", name="n" * 5_000)
    log.error("later")
    event_log("other").error("not tapped")
    events, _ = feed.since(0, 10)
    assert [(e.level, e.name) for e in events] == [
        ("info", "happened"),
        ("warning", "odd"),
        ("error", "later"),
    ]
    assert events[0].facts == {"component": "part", "broker": 1, "size": 3, "what": [1]}
    assert events[1].facts["more"] is True
    assert len(events[1].facts["name"]) < MAX_FACT + 30
    assert [name for _, name, _ in printed] == ["unimportant", "happened", "odd", "later"]


@pytest.mark.mission("GLASS-8")
def test_lists_of_facts_are_lists_and_long_ones_are_cut() -> None:
    feed = feed_of()
    partition = TopicPartition("t", 0)
    feed.append("info", "some", {"isr": (2, 1), "topics": {"b", "a"}, "of": [partition, None]})
    feed.append("info", "many", {"brokers": list(range(10_000)), "one": partition})
    (some, many), _ = feed.since(0, 10)
    assert some.facts == {"isr": [2, 1], "topics": ["a", "b"], "of": [repr(partition), None]}
    *first, note = many.facts["brokers"]
    assert first == list(range(len(first)))
    assert len(json.dumps(first)) < 5 * MAX_FACT
    assert note == "... (10000 elements)"
    assert many.facts["one"] == repr(partition)
