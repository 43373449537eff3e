"""When a client sends Metadata requests: at once, again soon, ever later, never too often."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client.cluster_view import ClusterView, merge
from minikafka.core.client.metadata_refresh import MetadataRefresh
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MIDDLE = 0.5  # the draw without jitter
MAX_AGE_MS = 300_000


def view(epochs: tuple[int, ...] = (0, 0), brokers: tuple[int, ...] = (1, 2)) -> ClusterView:
    """A view in which each partition is led by broker 1, then 2, then 1, by its epoch."""
    rows = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1 + epoch % 2, leader_epoch=epoch
        )
        for number, epoch in enumerate(epochs)
    ]
    return merge(
        ClusterView(),
        MetadataResponse(
            brokers=[MetadataResponseBroker(broker, f"h{broker}", 1) for broker in brokers],
            topics=[MetadataResponseTopic(name="t", partitions=rows)],
        ),
        (),
    )


def refreshed(now_ms: int = 0) -> MetadataRefresh:
    refresh = MetadataRefresh(100, 1_000, MAX_AGE_MS)
    respond(refresh, view(), now_ms)
    return refresh


def respond(
    refresh: MetadataRefresh,
    after: ClusterView,
    now_ms: int,
    before: ClusterView | None = None,
    unreachable: tuple[tuple[int, int], ...] = (),
    incomplete: bool = False,
) -> int | None:
    """Send a request and receive its response at once; return the time of the next request."""
    refresh.begin()
    refresh.updated(before or view(), after, unreachable, incomplete, now_ms, MIDDLE)
    return refresh.due_ms


def repeats(refresh: MetadataRefresh, count: int, **facts: Any) -> list[int]:
    """The delays of requests whose responses change nothing."""
    waits = []
    for _ in range(count):
        due_ms = refresh.due_ms
        assert due_ms is not None
        after = respond(refresh, view(), due_ms, **facts)
        assert after is not None
        waits.append(after - due_ms)
    return waits


@pytest.mark.mission("CFAST-1")
def test_a_doubted_leader_is_looked_up_at_once_and_again_soon_until_there_is_another() -> None:
    refresh = refreshed()
    assert refresh.due_ms == MAX_AGE_MS
    refresh.doubt(T0, 1, view(), 1_000)
    assert refresh.due_ms is not None
    assert refresh.due_ms <= 1_000
    assert repeats(refresh, 5) == [25, 31, 39, 48, 61]
    assert respond(refresh, view((1, 0)), 1_200) == 1_200 + MAX_AGE_MS


def test_a_partition_without_a_leader_stays_in_doubt() -> None:
    refresh = refreshed()
    refresh.doubt(T0, 1, view(), 1_000)
    assert respond(refresh, view((1, 0), brokers=(1,)), 1_000) == 1_025
    assert respond(refresh, view((1, 0)), 1_025) == 1_025 + MAX_AGE_MS


def test_a_leader_that_the_view_does_not_have_any_more_is_no_doubt() -> None:
    refresh = refreshed()
    refresh.doubt(T0, 2, view(), 1_000)
    assert refresh.due_ms == MAX_AGE_MS


def test_an_unreachable_broker_is_looked_up_until_it_is_gone_or_nobody_calls_it() -> None:
    refresh = refreshed()
    refresh.want(1_000)
    dead = ((2, 990),)
    assert respond(refresh, view(), 1_000, unreachable=dead) == 1_025
    assert respond(refresh, view(), 2_989, unreachable=dead) == 3_020
    assert respond(refresh, view(), 2_990, unreachable=dead) == 2_990 + MAX_AGE_MS
    refresh.want(9_000)
    assert respond(refresh, view(brokers=(1,)), 9_000, unreachable=((2, 8_999),)) == 309_000


@pytest.mark.mission("CFAST-1")
def test_a_thousand_doubts_are_one_request() -> None:
    refresh, many = refreshed(), view((0,) * 1_000)
    for number in range(1_000):
        refresh.doubt(TopicPartition("t", number), 1, many, 1_000)
    due = respond(refresh, view((1,) * 1_000), 1_001, before=many)
    assert due == 1_001 + MAX_AGE_MS


def test_wishes_during_a_request_are_another_one_after_the_delay() -> None:
    refresh = refreshed()
    refresh.want(1_000)
    refresh.begin()
    refresh.want(1_001)
    refresh.updated(view(), view((1, 1)), (), False, 1_002, MIDDLE)
    assert refresh.due_ms == 1_027


def test_a_new_doubt_is_not_held_up_by_an_old_one() -> None:
    refresh = refreshed()
    refresh.doubt(T0, 1, view(), 0)
    waits = repeats(refresh, 10)
    assert waits[-1] > 100
    begun_ms = refresh.due_ms
    assert begun_ms is not None
    refresh.doubt(T0, 1, view(), begun_ms - 1)  # the same one
    assert refresh.due_ms == begun_ms
    refresh.doubt(T1, 1, view(), begun_ms - 1)
    assert refresh.due_ms == begun_ms - waits[-1] + 25


def test_new_topics_do_not_wait_and_missing_ones_are_requested_again() -> None:
    refresh = refreshed(5_000)
    refresh.want(5_000)
    assert refresh.due_ms == 5_025
    refresh.want_now()
    assert refresh.due_ms == 0
    assert respond(refresh, view(), 5_001, incomplete=True) == 5_026


def test_without_a_response_the_backoff_is_the_usual_one() -> None:
    refresh = MetadataRefresh(100, 1_000, MAX_AGE_MS)
    assert refresh.due_ms is None
    refresh.want_now()
    for delay_ms in (100, 200, 400, 800, 1_000, 1_000):
        refresh.begin()
        refresh.failed(7, MIDDLE)
        assert refresh.due_ms == 7 + delay_ms


STEPS = st.lists(st.tuples(st.sampled_from(["want", "doubt", "move", "wait"]), st.integers(0, 300)))


@pytest.mark.mission("CFAST-1")
@given(STEPS)
def test_no_wish_is_forgotten_and_no_broker_is_hammered(steps: list[tuple[str, int]]) -> None:
    """Whatever is asked for: 41 requests a second at most, each wish is served by a later one, and
    a doubt holds until the leader has changed."""
    refresh, now_ms, epoch, sent = refreshed(), 0, 0, [0]
    known = cluster = view((epoch,))
    respond(refresh, known, 0)
    for step, number in steps:
        asked_ms = now_ms
        if step == "want":
            refresh.want(now_ms)
        elif step == "doubt":
            refresh.doubt(T0, known.leaders[T0], known, now_ms)
        elif step == "move":
            epoch += 1
            cluster = view((epoch,))
        wanted = step in ("want", "doubt")
        until_ms = now_ms + (1_300 if wanted else number)
        while (due_ms := refresh.due_ms) is not None and max(due_ms, now_ms) <= until_ms:
            now_ms = max(due_ms, now_ms)
            assert now_ms - sent[-1] >= 20 or len(sent) == 1
            sent.append(now_ms)
            respond(refresh, cluster, now_ms, before=known)
            known = cluster
        now_ms = until_ms
        assert not wanted or sent[-1] >= asked_ms
