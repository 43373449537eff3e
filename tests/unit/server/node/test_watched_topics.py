"""Which topics pages watch."""

from __future__ import annotations

import pytest

from minikafka.server.node.state_facts import MAX_TOPICS, WATCHED_MS, WatchedTopics


@pytest.mark.mission("GLASS-53")
def test_a_topic_is_watched_for_a_while_after_it_was_named() -> None:
    topics = WatchedTopics()
    topics.name(["a", "b"], 0)
    topics.name(["b"], 10)
    assert topics.now(WATCHED_MS - 1) == {"a", "b"}
    assert topics.now(WATCHED_MS) == {"b"}
    assert topics.now(WATCHED_MS + 10) == frozenset()


@pytest.mark.mission("GLASS-53")
def test_those_named_last_are_watched() -> None:
    topics = WatchedTopics()
    topics.name(["old", "kept"], 0)
    topics.name((str(number) for number in range(10**6)), 1)
    assert len(topics.now(1)) == MAX_TOPICS
    topics.name(["kept"], 2)
    assert {"kept", "1"} <= topics.now(2)
    assert not {"old", "0"} & topics.now(2)
