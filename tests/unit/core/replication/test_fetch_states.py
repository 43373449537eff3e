"""Which partitions a fetcher requests, against a dictionary that is looked through each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.replication.fetch_state import FetchStates, PartitionFetchState, truncated
from minikafka.kernel.cluster import TopicPartition

P = [TopicPartition("t", index) for index in range(6)]
READY = PartitionFetchState(None, 3, 10)
STATES = st.builds(
    PartitionFetchState,
    topic_id=st.none(),
    leader_epoch=st.just(3),
    fetch_offset=st.integers(0, 3),
    delayed_until_ms=st.none() | st.integers(1, 60),
    truncating=st.sampled_from([False, False, False, True]),
)
STEPS = st.lists(
    st.tuples(st.just("put"), st.sampled_from(P), STATES)
    | st.tuples(st.just("remove"), st.sampled_from(P))
    | st.tuples(st.just("wait"), st.integers(0, 20))
    | st.tuples(st.just("request")),
    max_size=60,
)


def test_delayed_and_unflushed_partitions_are_not_due() -> None:
    states = FetchStates()
    states.put(P[0], READY)
    states.put(P[1], READY._replace(delayed_until_ms=100))
    states.put(P[2], READY._replace(delayed_until_ms=101))
    states.put(P[3], truncated(READY, 6, 1, unflushed=True))
    states.put(P[4], truncated(READY, 6, 1, unflushed=False))
    assert sorted(states.due(100)) == [P[0], P[1], P[4]]
    assert states.first_delay_ms(100) == 1
    assert len(states) == 5


def test_one_that_made_progress_comes_last() -> None:
    states = FetchStates()
    for topic_partition in P:
        states.put(topic_partition, READY)
    states.put(P[1], READY._replace(fetch_offset=11))
    states.put(P[3], READY._replace(lag=0))
    assert list(states.due(0)) == [P[0], *P[2:], P[1]]


@pytest.mark.mission("FET-17")
@given(steps=STEPS)
def test_a_request_that_looks_at_changes_alone_has_all_that_is_due(
    steps: list[tuple[object, ...]],
) -> None:
    """``sent`` stands for the fetch session: it takes in what has changed."""
    states, now_ms = FetchStates(), 0
    twin: dict[TopicPartition, PartitionFetchState] = {}
    sent: dict[TopicPartition, PartitionFetchState] = {}
    for step in [*steps, ("request",)]:
        match step:
            case "put", TopicPartition() as topic_partition, PartitionFetchState() as state:
                states.put(topic_partition, state)
                twin[topic_partition] = state
            case "remove", TopicPartition() as topic_partition:
                states.remove(topic_partition)
                twin.pop(topic_partition, None)
            case "wait", int(waited_ms):
                now_ms += waited_ms
            case _:
                due = states.due(now_ms)
                for topic_partition in states.changed:
                    sent.pop(topic_partition, None)
                    if topic_partition in due:
                        sent[topic_partition] = due[topic_partition]
                states.changed.clear()
                fetched = {tp: s for tp, s in twin.items() if not s.is_delayed(now_ms)}
                assert sent == dict(due) == fetched
        assert states.copy() == twin
        assert len(states) == len(twin)
        ends = [s.delayed_until_ms for s in twin.values() if s.is_delayed(now_ms)]
        states.due(now_ms)
        first_ms = min((end - now_ms for end in ends if end is not None), default=None)
        assert states.first_delay_ms(now_ms) == first_ms
