"""The path of common Fetch requests of followers does what the general path does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.broker.requests.follower_fetch import MAX_ALIKE_BYTES
from minikafka.core.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.follower_fetch import FIRST_VERSION, LAST_VERSION
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from tests.support.broker.both_paths import NOW, Change, Damage, Player, compared, damaged, varied
from tests.support.broker.replicas import TOPIC, TOPIC_ID
from tests.support.broker.two_paths import FOLLOWER, Side

REPLICATED = (1, 2)
CONFIGS: tuple[dict[str, Any], ...] = ({}, {"segment_bytes": 300}, {"min_isr": 2})


@dataclass(frozen=True)
class Fetch:
    """A Fetch request of a follower. ``session`` is the place of a session among those of the
    broker, and what is added to its epoch; or the epoch of a full request. ``behind`` is how many
    records the follower lacks."""

    connection: int = 1
    version: int = LAST_VERSION
    client_id: str | None = "f"
    replica_id: int = FOLLOWER
    partitions: tuple[int, ...] = (2,)
    topic_id: UUID = TOPIC_ID
    behind: int = 0
    max_wait_ms: int = 400
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    partition_max_bytes: int = 1 << 20
    leader_epoch: int = 1
    last_epoch: int = -1
    log_start: int = 0
    forgets: bool = False
    session: tuple[int, int] | int = (0, 0)
    damage: Damage | None = None

    def frame(self, correlation_id: int, side: Side) -> bytes:
        rows = []
        for partition in self.partitions:
            found = side.node.replicas.hosted.get(TopicPartition(TOPIC, partition))
            end = found.log.log_end_offset if found is not None and found.has_log else 0
            row = FetchPartition(
                partition,
                self.leader_epoch,
                end - self.behind,
                self.last_epoch,
                self.log_start,
                self.partition_max_bytes,
            )
            rows.append(row)
        session_id, epoch = NO_SESSION, self.session
        if isinstance(epoch, tuple):
            place, shift = epoch
            session_id, known = side.session(place)
            epoch = known + shift
        in_state = self.version >= 15
        message = FetchRequest(
            replica_id=-1 if in_state else self.replica_id,
            replica_state=ReplicaState(self.replica_id, 1) if in_state else None,
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(TOPIC, self.topic_id, rows)] if rows else [],
            forgotten_topics_data=[ForgottenTopic(TOPIC, TOPIC_ID, [1])] if self.forgets else [],
        )
        header = RequestHeader(1, self.version, correlation_id, self.client_id)
        return damaged(encode_request(header, message), self.damage)


@dataclass(frozen=True)
class Produce:
    """So many Produce requests of one record in one read."""

    partition: int = 2
    requests: int = 1
    acks: int = -1


COMMON = st.builds(
    Fetch,
    connection=st.sampled_from([1, 1, 1, 0, 2]),
    partitions=st.sampled_from([(2,), (2,), (2,), (1,), (1,), (), (1, 2)]),
    behind=st.sampled_from([0, 0, 0, 1, 2]),
    max_wait_ms=st.sampled_from([0, 400, 400]),
    min_bytes=st.sampled_from([1, 1, 1, 0, 150]),
    leader_epoch=st.sampled_from([1, 1, 1, -1, 2]),
    log_start=st.sampled_from([0, 0, 0, 1, -1]),
    session=st.one_of(
        st.just(INITIAL_EPOCH),
        st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 0, 0, 1, -1])),
    ),
)
DIFFERENCES: tuple[dict[str, Any], ...] = (
    {"version": 12},
    {"version": 13},
    {"version": 14},
    {"version": 15},
    {"client_id": "é"},
    {"client_id": None},
    {"client_id": ""},
    {"replica_id": -1},
    {"replica_id": 7},
    {"partitions": (0,)},
    {"partitions": (7,)},
    {"topic_id": UUID(int=99)},
    {"behind": -1},
    {"behind": 60},
    {"max_bytes": 0},
    {"max_bytes": 150},
    {"partition_max_bytes": 0},
    {"last_epoch": 0},
    {"last_epoch": 1},
    {"last_epoch": 2},
    {"forgets": True},
    {"session": FINAL_EPOCH},
)
PRODUCES = st.builds(
    Produce,
    st.sampled_from([2, 2, 1, 0]),
    st.sampled_from([1, 3]),
    st.sampled_from([-1, -1, 1]),
)
CHANGES = st.one_of(
    st.builds(Change, st.just("time"), st.sampled_from([1, 60, 500])),
    st.builds(Change, st.just("config"), st.integers(0, len(CONFIGS) - 1)),
    st.builds(Change, st.just("leader"), st.sampled_from([1, 1, FOLLOWER])),
    st.builds(Change, st.just("delete"), st.sampled_from(REPLICATED)),
    st.builds(Change, st.just("disk")),
    st.builds(Change, st.just("throttle"), st.sampled_from([0, 1_000])),
    st.builds(Change, st.just("watch")),
)
FETCHES = varied(COMMON, DIFFERENCES)
STEPS = st.lists(st.one_of(FETCHES, FETCHES, PRODUCES, PRODUCES, CHANGES), min_size=1, max_size=16)
Steps = list[Fetch | Produce | Change]


class FollowerPlayer(Player[Fetch | Produce]):
    configs = CONFIGS

    def send(self, step: Fetch | Produce) -> None:
        transports = self.side.transports
        if isinstance(step, Fetch):
            transports[step.connection].receive(step.frame(self.next_id(), self.side))
        else:
            transports[0].receive(b"".join(self._produce(step) for _ in range(step.requests)))

    def _produce(self, produce: Produce) -> bytes:
        records = build_batch([(NOW, None, b"v" * 20, ())])
        rows = [PartitionProduceData(produce.partition, records)]
        message = ProduceRequest(None, produce.acks, 300, [TopicProduceData(TOPIC, rows)])
        return encode_request(RequestHeader(0, 9, self.next_id(), "p"), message)

    async def change(self, change: Change) -> None:
        if change.kind == "throttle":
            self.side.node.replicas.throttles.limit(change.value, None, None)
            return
        if change.kind != "delete":
            await super().change(change)
            return
        found = self.side.node.replicas.hosted.get(TopicPartition(TOPIC, change.value))
        if found is not None and found.is_leader and not self.side.is_broken:
            found.delete_records(-1)


async def compare(steps: Steps) -> int:
    """Compare both paths, and return how many Fetch requests the common one has served."""
    return (await compared(FollowerPlayer, steps, replicated=REPLICATED)).fetched_commonly


OPENS = Fetch(partitions=REPLICATED, session=INITIAL_EPOCH, max_wait_ms=0)


@pytest.mark.mission("FET-22")
@given(steps=STEPS)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_both_paths_have_the_same_effects(steps: Steps) -> None:
    asyncio.run(compare([OPENS, Produce(), *steps]))


@pytest.mark.mission("FET-23")
@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
async def test_a_common_request_of_a_follower_does_not_reach_the_general_path(
    version: int,
) -> None:
    fetch = Fetch(version=version)
    steps: Steps = [replace(OPENS, version=version)]
    for _ in range(3):
        steps += [Produce(requests=5), replace(fetch, behind=5), fetch, Change("time", 60)]
        steps += [replace(fetch, partitions=()), Produce(1), replace(fetch, partitions=(1,))]
    assert await compare(steps) == 9


@pytest.mark.mission("FET-23")
@pytest.mark.parametrize(
    "odd",
    [
        {"version": 14},
        {"client_id": None},
        {"client_id": "f" * MAX_ALIKE_BYTES},
        {"replica_id": -1},
        {"partitions": (1, 2)},
        {"partitions": ()},
        {"topic_id": UUID(int=99)},
        {"forgets": True},
        {"session": INITIAL_EPOCH},
        {"session": FINAL_EPOCH},
    ],
)
async def test_an_unusual_request_of_a_follower_reaches_the_general_path(
    odd: dict[str, Any],
) -> None:
    steps: Steps = [OPENS, replace(Fetch(), **odd), Change("time", 500), Fetch()]
    assert await compare(steps) == 1


@pytest.mark.mission("FET-23")
async def test_a_parked_request_gets_the_records_of_another_partition() -> None:
    """They complete it, and have no prepared response."""
    settled: Steps = [OPENS, Fetch(), Change("time", 500), Fetch(partitions=(1,))]
    other: Steps = [Change("time", 500), Fetch(), Produce(1, 3), Fetch(partitions=(1,))]
    assert await compare([*settled, *other, Produce(2), Fetch()]) == 5


# Afterwards partition 2 is the only one of the session that may have changed.
MOVES: Steps = [OPENS, Fetch(), Change("time", 500), Fetch(), Produce()]


async def reads_of(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often the reader of the general path reads while the steps are played."""
    async with Side(with_common=True, replicated=REPLICATED) as side:
        player = FollowerPlayer(side)
        await player.play(*MOVES)
        reader, made = side.node.replicas.fetches._reader, 0

        def counted(read: Any) -> Any:
            def count(*arguments: Any) -> Any:
                nonlocal made
                made += 1
                return read(*arguments)

            return count

        monkeypatch.setattr(reader, "read_cached", counted(reader.read_cached))
        monkeypatch.setattr(reader, "read_parked", counted(reader.read_parked))
        await player.play(*steps)
        return made


@pytest.mark.mission("FAST-9")
@pytest.mark.parametrize("last_epoch", [-1, 1])
async def test_a_follower_that_lacks_nothing_gets_the_next_records_by_the_short_reads(
    last_epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = Fetch(last_epoch=last_epoch)
    steps: Steps = [fetch, Produce(requests=5), fetch, Produce(), fetch]
    await compare([*MOVES, *steps])
    assert await reads_of(steps, monkeypatch) == 0


@pytest.mark.mission("FAST-9")
@pytest.mark.parametrize(
    "steps",
    [
        [Fetch(behind=1)],
        [Fetch(max_wait_ms=0)],
        [Fetch(min_bytes=0)],
        [Fetch(leader_epoch=-1)],
        [Fetch(leader_epoch=2)],
        [Fetch(last_epoch=0)],
        [Fetch(log_start=1)],
        [Fetch(partitions=(1,))],
        [Change("throttle", 1_000), Fetch()],
        [Fetch(), Change("delete", 2), Produce()],
        [Fetch(), Change("throttle", 1_000), Produce()],
        [Fetch(), Change("time", 60)],
        [Fetch(), Change("time", 400)],
        [Fetch(), Produce(1)],
        [Fetch(), Change("leader", FOLLOWER), Change("time", 500)],
        [Fetch(), Change("disk"), Produce()],
        [Fetch(), Fetch(connection=2), Produce()],  # the session has gone on without the first
    ],
)
async def test_a_follower_that_gets_something_else_has_the_general_reads(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    await compare([*MOVES, *steps, Fetch(), Produce()])
    assert await reads_of(steps, monkeypatch) > 0


@pytest.mark.mission("FET-23")
async def test_a_bug_of_the_path_of_followers_ends_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Side(with_common=True, replicated=REPLICATED) as side:
        player = FollowerPlayer(side)
        await player.play(OPENS)
        bugs: list[Exception] = []
        monkeypatch.setattr(side.apis, "stop_node", bugs.append)

        def fails(*_: object) -> None:
            raise ValueError("bug")

        monkeypatch.setattr(side.node.replicas.fetches, "fetch", fails)
        with pytest.raises(ValueError, match="bug"):
            await player.play(Fetch())
        assert len(bugs) == 1


@pytest.mark.mission("FET-23")
async def test_requests_of_followers_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minikafka.broker.requests.follower_fetch.MAX_TARGETS", 2)
    async with Side(with_common=True, replicated=REPLICATED) as side:
        player = FollowerPlayer(side)
        await player.play(OPENS)
        before = side.served_commonly
        for number in range(5):
            await player.play(Fetch(max_wait_ms=0, log_start=number))
            assert len(side.followers._targets) in (1, 2)
        assert side.served_commonly - before == 5
