"""A follower's fetch session: requests name the changed partitions and examine no others."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.server.broker.replication import leader_session
from minikafka.server.broker.replication.leader_session import (
    FETCH_VERSION_BY_NAME,
    LeaderSession,
    ReplicaFetcherConfig,
)
from minikafka.server.storage.directories.log_starts import LogStarts
from tests.support.world.recording_log import RecordingLog
from tests.support.world.virtual_clock import VirtualClock

T, OTHER = UUID(int=7), UUID(int=8)
P = [TopicPartition("t", partition) for partition in range(3)]


def state(topic_id: UUID | None = T, offset: int = 0, epoch: int = 1) -> PartitionFetchState:
    return PartitionFetchState(topic_id, epoch, offset)


class Follower:
    """A session and the log starts of its replicas; ``looked_at`` lists the starts that it read."""

    def __init__(self, config: ReplicaFetcherConfig | None = None) -> None:
        self.starts: dict[TopicPartition, int] = {}
        self.log_starts = LogStarts(VirtualClock(), RecordingLog())
        self.broker_epoch = 102
        self.looked_at: list[TopicPartition] = []
        self.session = LeaderSession(
            2,
            lambda: self.broker_epoch,
            self._start,
            self.log_starts,
            config or ReplicaFetcherConfig(),
        )

    def _start(self, topic_partition: TopicPartition) -> int:
        self.looked_at.append(topic_partition)
        return self.starts.get(topic_partition, 0)

    def fetch(
        self,
        wanted: dict[TopicPartition, PartitionFetchState],
        changed: list[TopicPartition] | None = None,
    ) -> FetchRequest:
        """Send the next request. It looks at the ``changed`` partitions, or at all."""
        self.looked_at = []
        if changed is None:
            request, self.version = self.session.request(wanted, 500)
        else:
            request, self.version = self.session.request_changed(wanted, changed, 500)
        names_all = request.session_epoch == 0
        topics = [
            FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [PartitionData(partition_index=p.partition) for p in topic.partitions],
            )
            for topic in (request.topics if names_all else [])
        ]
        response = FetchResponse(session_id=9, responses=topics)
        assert self.session.accept(ErrorCode.NONE, response) is not None
        return request


def named(request: FetchRequest) -> list[tuple[UUID, int, int, int]]:
    return [
        (topic.topic_id, p.partition, p.fetch_offset, p.log_start_offset)
        for topic in request.topics
        for p in topic.partitions
    ]


def forgotten(request: FetchRequest) -> list[tuple[UUID, list[int]]]:
    return [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]


def test_only_changed_partitions_are_examined() -> None:
    follower = Follower()
    states = {tp: state() for tp in P}
    assert named(follower.fetch(states)) == [(T, i, 0, 0) for i in range(3)]
    assert named(follower.fetch(states)) == []
    assert follower.looked_at == []
    states[P[1]] = state(offset=5)
    assert named(follower.fetch(states)) == [(T, 1, 5, 0)]
    assert follower.looked_at == [P[1]]
    states[P[2]] = state()  # another object that says the same
    assert named(follower.fetch(states)) == []


def test_a_moved_log_start_is_sent() -> None:
    follower = Follower()
    states = {tp: state(offset=9) for tp in P}
    follower.fetch(states)
    follower.starts[P[0]] = 4
    follower.log_starts.moves += 1
    assert named(follower.fetch(states)) == [(T, 0, 9, 4)]
    assert named(follower.fetch(states)) == []


def test_a_partition_that_is_not_fetched_leaves_the_session_and_returns() -> None:
    follower = Follower()
    states = {tp: state() for tp in P}
    follower.fetch(states)
    some = {P[1]: states[P[1]]}
    assert forgotten(follower.fetch(some)) == [(T, [0, 2])]
    assert forgotten(follower.fetch(some)) == []
    assert named(follower.fetch(states)) == [(T, 0, 0, 0), (T, 2, 0, 0)]


def test_a_topic_of_the_same_name_is_another() -> None:
    follower = Follower()
    states = {tp: state() for tp in P}
    follower.fetch(states)
    states[P[1]] = state(OTHER)
    request = follower.fetch(states)
    assert named(request) == [(OTHER, 1, 0, 0)]
    assert forgotten(request) == [(T, [1])]


def test_one_topic_without_an_id_brings_names_for_all() -> None:
    follower = Follower()
    states = {tp: state() for tp in P[:2]}
    follower.fetch(states)
    assert follower.version == 17
    states[TopicPartition("old", 0)] = state(None)
    request = follower.fetch(states)
    assert follower.version == FETCH_VERSION_BY_NAME
    assert [topic.topic for topic in request.topics] == ["t", "old"]
    assert request.session_epoch == 0
    del states[TopicPartition("old", 0)]
    assert follower.fetch(states).session_epoch == 0
    assert follower.version == 17


def test_after_a_failure_everything_is_named() -> None:
    follower = Follower()
    states = {tp: state() for tp in P}
    follower.fetch(states)
    follower.session.failed()
    assert len(named(follower.fetch(states))) == 3


@pytest.mark.mission("MIX-11")
@pytest.mark.parametrize(
    ("protocol", "version", "by_id", "has_replica_state"),
    [
        ("2.0-IV1", 8, False, False),
        ("2.6-IV0", 11, False, False),
        ("3.0-IV1", 12, False, False),
        ("3.1-IV0", 13, True, False),
        ("3.5-IV0", 14, True, False),
        ("3.5-IV1", 15, True, True),
        ("3.9-IV0", 17, True, True),
    ],
)
def test_the_protocol_decides_version_and_names(
    protocol: str, version: int, by_id: bool, has_replica_state: bool
) -> None:
    config = ReplicaFetcherConfig(inter_broker_protocol=InterBrokerProtocol.parse(protocol))
    follower = Follower(config)
    request = follower.fetch({P[0]: state()})
    assert follower.version == version
    assert (request.topics[0].topic_id == T, request.topics[0].topic == "t") == (by_id, not by_id)
    assert request.replica_id == (-1 if has_replica_state else 2)
    found = request.replica_state
    assert (found is not None and found.replica_id == 2) is has_replica_state


@pytest.mark.mission("FET-17")
@settings(deadline=None)
@given(data=st.data())
def test_a_look_at_the_changes_alone_builds_the_same_requests(data: st.DataObject) -> None:
    """The twin looks at all partitions for each request."""
    follower, twin = Follower(), Follower()
    states: dict[TopicPartition, PartitionFetchState] = {}
    ids = st.sampled_from([T, T, T, OTHER, None])
    for _ in range(data.draw(st.integers(1, 12))):
        changed = data.draw(st.lists(st.sampled_from(P), unique=True))
        for topic_partition in changed:
            states.pop(topic_partition, None)
            if data.draw(st.booleans()):
                states[topic_partition] = state(data.draw(ids), data.draw(st.integers(0, 2)))
        if data.draw(st.integers(0, 4)) == 0:
            for each in (follower, twin):
                each.log_starts.moves += 1
                each.starts[P[0]] = each.log_starts.moves
        if data.draw(st.integers(0, 6)) == 0:
            follower.session.failed()
            twin.session.failed()
        mine = follower.fetch(states, changed)
        expected = twin.fetch(states)
        assert follower.version == twin.version
        assert mine.session_epoch == expected.session_epoch
        assert everything(mine) == everything(expected)
        assert set(follower.session.requested) == states.keys()
        assert all(follower.session.requested_state(tp) is states[tp] for tp in states)


@pytest.mark.mission("SCALE-8")
def test_a_leader_of_too_many_partitions_learns_them_in_several_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_session, "NAMED_AT_ONCE", 2)
    follower = Follower()
    states = {tp: state() for tp in P}
    first = follower.fetch(states, P)
    assert named(first) == [(T, 0, 0, 0), (T, 1, 0, 0)]
    second = follower.fetch(states, [])
    assert named(second) == [(T, 2, 0, 0)]
    assert (first.max_wait_ms, second.max_wait_ms) == (0, 500)
    assert named(follower.fetch(states, [])) == []


@pytest.mark.mission("SCALE-8")
def test_a_leader_without_a_slot_for_the_session_is_sent_all_partitions_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_session, "NAMED_AT_ONCE", 2)
    follower = Follower()
    states = {tp: state() for tp in P}
    follower.fetch(states, P)
    follower.session.failed()
    assert [row[1] for row in named(follower.fetch(states, []))] == [2, 0]


@pytest.mark.mission("SCALE-8")
@settings(deadline=None)
@given(data=st.data())
def test_a_session_ends_with_the_wanted_partitions_however_few_a_request_names(
    data: st.DataObject,
) -> None:
    follower, held = Follower(), dict[object, object]()
    states: dict[TopicPartition, PartitionFetchState] = {}

    def fetch(changed: list[TopicPartition]) -> None:
        request = follower.fetch(states, changed)
        if request.session_epoch == 0:
            held.clear()
        for topic in request.topics:
            for p in topic.partitions:
                held[topic.topic_id, p.partition] = (p.fetch_offset, p.log_start_offset)
        for topic_id, numbers in forgotten(request):
            for number in numbers:
                del held[topic_id, number]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(leader_session, "NAMED_AT_ONCE", data.draw(st.integers(1, 2)))
        for _ in range(data.draw(st.integers(1, 8))):
            changed = data.draw(st.lists(st.sampled_from(P), unique=True))
            for topic_partition in changed:
                states.pop(topic_partition, None)
                if data.draw(st.booleans()):
                    offset = data.draw(st.integers(0, 2))
                    states[topic_partition] = state(data.draw(st.sampled_from([T, OTHER])), offset)
            if data.draw(st.integers(0, 4)) == 0:
                follower.log_starts.moves += 1
                follower.starts[P[0]] = follower.log_starts.moves
            if data.draw(st.integers(0, 6)) == 0:
                follower.session.failed()
            fetch(changed)
        for _ in P:
            fetch([])
    assert held == {
        (s.topic_id, tp.partition): (s.fetch_offset, follower.starts.get(tp, 0))
        for tp, s in states.items()
    }


def everything(request: FetchRequest) -> list[tuple[object, ...]]:
    """Return the partitions of a request in any order."""
    return sorted(
        [(t.topic, str(t.topic_id), str(p)) for t in request.topics for p in t.partitions]
    ) + sorted(
        (t.topic, str(t.topic_id), index)
        for t in request.forgotten_topics_data
        for index in t.partitions
    )
