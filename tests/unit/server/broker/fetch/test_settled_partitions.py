"""Followers' sessions that leave unchanged partitions out differ only in what they cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.records.record import decode_records
from minikafka.server.broker.fetch.follower_sessions import FollowerSession
from minikafka.server.broker.fetch.reader import FetchReader
from tests.support.broker.deletions import delete_records
from tests.support.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    Node,
    ReplicaCluster,
    error_of,
)

PARTITIONS = 4
FOLLOWER, OTHER = 2, 3
VERSION = 12

# What a run shows: a name and facts.
Seen = list[tuple[Any, ...]]


class Follower:
    """Broker 2, played by the test: one Fetch at a time, as of ``LeaderSession``, in one of two
    sessions."""

    def __init__(self, node: Node, seen: Seen) -> None:
        self.node = node
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        self.epoch = 0
        self.parked: list[Any] | None = None
        self._seen = seen
        self._session = (0, 0)
        self._named: dict[int, tuple[int, int, int]] = {}
        self._other = self._session, self._named

    def change_session(self) -> None:
        """Continue the session of before, which knows nothing of the fetches since."""
        self._other, (self._session, self._named) = (self._session, self._named), self._other
        self.parked = None

    def fetch(self, max_wait_ms: int, max_bytes: int = 1 << 20) -> None:
        """Send the next Fetch."""
        wanted = {i: (self.ends[i], self.starts[i], self.epoch) for i in range(PARTITIONS)}
        is_full = self._session[0] == 0
        named = {i: at for i, at in wanted.items() if is_full or self._named.get(i) != at}
        self._named = wanted
        partitions = [
            FetchPartition(i, epoch, end, log_start_offset=start, partition_max_bytes=1 << 20)
            for i, (end, start, epoch) in named.items()
        ]
        request = FetchRequest(
            replica_id=FOLLOWER,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=[FetchTopic(TOPIC, TOPIC_ID, partitions)] if partitions else [],
        )
        try:
            self.parked = self.node.ask(request, VERSION)
        except KafkaError as error:
            self._seen.append(("refused", error.code.name))
            self.lose_session()
            return
        self._session = (self._session[0], self._session[1] + 1)
        self.take()

    def take(self) -> None:
        """Apply the response, if there is one."""
        if not self.parked:
            return
        (response,), self.parked = self.parked, None
        rows = sorted(
            (p.partition_index, p.error_code, p.high_watermark, p.log_start_offset,
             [r.value for r in decode_records(p.records or b"")])
            for topic in response.responses for p in topic.partitions
        )  # fmt: skip
        self._seen.append(("response", response.error_code, rows))
        if response.error_code:
            self.lose_session()
            return
        self._session = (response.session_id, self._session[1])
        for index, error, _, start, values in rows:
            if not error:
                self.ends[index] = max(self.ends[index], start) + len(values)
                self.starts[index] = max(self.starts[index], start)

    def lose_session(self) -> None:
        self._session, self._named, self.parked = (0, 0), {}, None


def look(cluster: ReplicaCluster, seen: Seen) -> None:
    """Note everything about the partitions that a follower's fetches decide."""
    for index in range(PARTITIONS):
        tp = TopicPartition(TOPIC, index)
        partition = cluster[1].replicas.hosted.get(tp)
        if partition is None or not partition.is_leader:
            seen.append((index, "no leader"))
            continue
        times = {
            replica: (*state[:2], partition.last_caught_up_ms(replica))
            for replica, state in partition.followers.items()
        }
        seen.append((index, partition.high_watermark, partition.state.isr, times))


class Life:
    """A random life of a leader with two followers. ``seen`` is all that can be seen of it."""

    def __init__(self, seed: int, cluster: ReplicaCluster) -> None:
        self.seen: Seen = []
        self._chance = random.Random(seed)
        self._cluster = cluster
        self._node = cluster[1]
        self._follower = Follower(self._node, self.seen)
        self._broker = cluster.metadata.alive[FOLLOWER]
        self._epoch = 0
        self._pending: list[tuple[str, list[Any]]] = []
        self._actions: dict[Callable[[], Any], int] = {  # how often
            self.fetch: 6,
            self.wait: 4,
            self.produce: 3,
            self.other_fetches: 3,
            self.delete: 1,
            self.elect: 1,
            self.lose_session: 1,
            self.change_session: 1,
            self.die_or_live: 1,
        }

    async def step(self) -> None:
        (act,) = self._chance.choices([*self._actions], [*self._actions.values()])
        done = act()
        if asyncio.iscoroutine(done):
            await done
        await self._cluster.clock.advance(0)
        self._follower.take()
        self.seen += [(name, repr(found)) for name, found in self._pending if found]
        self._pending = [(name, found) for name, found in self._pending if not found]
        look(self._cluster, self.seen)

    async def wait(self) -> None:
        await self._cluster.clock.advance(self._chance.choice((1, 60, 500, 3_000)))

    def produce(self) -> None:
        acks, tp = self._chance.choice((-1, 1)), self._any_partition()
        self._pending.append(("produced", self._node.produce("v", acks=acks, topic_partition=tp)))

    def other_fetches(self) -> None:
        tp = self._any_partition()
        partition = self._node.replicas.hosted.get(tp)
        if partition is not None and partition.is_leader:
            log = partition.log
            fetched = self._node.fetch(
                log.log_end_offset,
                replica_id=OTHER,
                max_wait_ms=0,
                topic_partition=tp,
                log_start_offset=log.log_start_offset,
            )
            self._pending.append(("other", fetched))

    def delete(self) -> None:
        deleted = delete_records(self._node, -1, topic_partition=self._any_partition())
        self._pending.append(("deleted", deleted))

    async def elect(self) -> None:
        self._epoch += self._chance.choice((0, 1))
        isr = self._chance.choice(((1, 2, 3), (1, 2), (1, 3)))
        some = self._chance.sample(range(PARTITIONS), self._chance.randint(1, PARTITIONS))
        if self._epoch > self._follower.epoch:
            some = list(range(PARTITIONS))
        await self._cluster.elect(1, isr, epoch=self._epoch, partitions=some)
        self._follower.epoch = self._epoch

    async def fetch(self) -> None:
        await self._without_fetch()
        self._follower.fetch(self._chance.choice((0, 100, 500)))

    async def lose_session(self) -> None:
        await self._without_fetch()
        self._follower.lose_session()

    async def change_session(self) -> None:
        await self._without_fetch()
        self._follower.change_session()

    def die_or_live(self) -> None:
        """The follower is dead for the leader, so that it does not join the ISR, or back."""
        alive = self._cluster.metadata.alive
        if alive.pop(FOLLOWER, None) is None:
            alive[FOLLOWER] = self._broker

    async def _without_fetch(self) -> None:
        """Wait for the end of a parked fetch: of several ones of a follower, any may get the news
        first, even one whose response is lost."""
        if self._follower.parked is not None:
            await self._cluster.clock.advance(600)
            self._follower.take()

    def _any_partition(self) -> TopicPartition:
        return TP._replace(partition=self._chance.randrange(PARTITIONS))


async def play(seed: int, steps: int) -> Seen:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        life = Life(seed, cluster)
        for _ in range(steps):
            await life.step()
    return life.seen


@pytest.mark.mission("FET-14")
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 80))
def test_which_partitions_are_left_out_is_not_to_be_seen(seed: int, steps: int) -> None:
    settled = asyncio.run(play(seed, steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FollowerSession, "_settle", lambda *arguments: None)
        assert asyncio.run(play(seed, steps)) == settled


async def test_a_partition_without_room_in_the_response_is_read_again() -> None:
    seen: Seen = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        follower = Follower(cluster[1], seen)
        for max_bytes in (1 << 20, 1 << 20, 100, 100, 100):
            follower.fetch(0, max_bytes)
            if len(seen) == 2:  # all are settled
                for index in range(PARTITIONS):
                    cluster[1].produce("v", topic_partition=TP._replace(partition=index))
        sent = [row[0] for _, _, rows in seen[2:] for row in rows if row[-1]]
        assert len(set(sent)) == 3


@pytest.mark.mission("FET-14")
async def test_partitions_that_do_not_change_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    read_request = FetchReader.read

    def counted(self: FetchReader, reading: Any, entries: Any, now_ms: int) -> None:
        read.append(len(entries))
        read_request(self, reading, entries, now_ms)

    monkeypatch.setattr(FetchReader, "read", counted)
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        await cluster.clock.advance(10_000)
        read.clear()
        await cluster.clock.advance(10_000)
        assert len(read) >= 30  # two followers, each every 500 ms
        assert set(read) == {0}
        produced = cluster[1].produce("v")
        await cluster.clock.advance(100)
        assert error_of(produced) is ErrorCode.NONE
        assert set(read) == {0, 1}


async def test_a_stopped_replica_ends_a_parked_fetch_that_left_it_out() -> None:
    seen: Seen = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        follower = Follower(cluster[1], seen)
        for _ in range(2):
            follower.fetch(0)
        follower.fetch(500)
        assert not follower.parked
        cluster[1].replicas.disk_failed(TP, OSError("broken"))
        await cluster.clock.advance(0)
        follower.take()
        assert seen[-1][2][0][:2] == (0, ErrorCode.KAFKA_STORAGE_ERROR)


async def test_a_log_start_that_moves_is_in_the_response_of_a_parked_fetch() -> None:
    seen: Seen = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, replicas=[1, 2], isr=[1, 2], partitions=range(PARTITIONS))
        follower = Follower(cluster[1], seen)
        cluster[1].produce("v", acks=1)
        for _ in range(4):
            follower.fetch(0)
        assert cluster[1].partition().high_watermark == 1
        follower.fetch(500)
        delete_records(cluster[1], 1)
        await cluster.clock.advance(500)
        follower.take()
        assert seen[-1] == ("response", 0, [(0, 0, 1, 1, [])])


async def test_a_follower_of_an_older_epoch_is_fenced() -> None:
    seen: Seen = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        follower = Follower(cluster[1], seen)
        for _ in range(3):
            follower.fetch(0)
        await cluster.elect(1, epoch=1, partitions=[2])
        follower.fetch(0)
        assert seen[-1][2] == [(2, ErrorCode.FENCED_LEADER_EPOCH, -1, -1, [])]


class Refusing:
    """An authorization that lets no broker fetch as a follower."""

    def may_follow(self, context: Any) -> bool:
        return False

    async def readable(self, context: Any, topics: Any) -> frozenset[str]:
        raise AssertionError("of consumers only")


async def test_a_follower_that_may_no_longer_fetch_is_refused_every_partition() -> None:
    seen: Seen = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, partitions=range(PARTITIONS))
        follower = Follower(cluster[1], seen)
        for _ in range(3):
            follower.fetch(0)
        assert seen[-1] == ("response", 0, [])  # all are settled
        handler: Any = cluster[1].handlers[ApiKey.FETCH]
        handler._authorization = Refusing()
        follower.fetch(500)
        await cluster.clock.advance(0)
        follower.take()
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        rows: list[tuple[Any, ...]] = seen[-1][2]
        assert [row[:2] for row in rows] == [(i, refused) for i in range(PARTITIONS)]
