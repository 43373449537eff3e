"""The path of common Produce requests does what the general path does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.broker.requests.common_produce import FIRST_VERSION, LAST_VERSION
from minikafka.core.log.config import LOG_APPEND_TIME
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from tests.support.broker.replicas import TOPIC, TOPIC_ID
from tests.support.broker.two_paths import CONNECTIONS, FOLLOWER, PARTITIONS, REPLICATED, Side

OLDEST_VERSION = 3  # of the random requests
NOW = 1_700_000_000_000
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": LOG_APPEND_TIME},
    {"message_timestamp_before_max_ms": 1_000},
    {"compression_type": "gzip"},
    {"compression_type": "uncompressed"},
    {"max_message_bytes": 80},
    {"segment_bytes": 200},
    {"flush_messages": 2},
    {"min_isr": 2},
)


@dataclass(frozen=True)
class Request:
    """A Produce request. ``damage`` inverts a bit of the byte at a share of the frame."""

    version: int = 9
    acks: int = 1
    client_id: str | None = "c"
    topic: str = TOPIC
    partition: int = 0
    also: int | None = None  # a second partition
    values: tuple[int, ...] = (10,)  # their sizes
    producer: tuple[int, int, int] = (-1, -1, -1)  # id, epoch, sequence
    compression: Compression = Compression.NONE
    transactional: bool = False
    transactional_id: str | None = None
    timeout_ms: int = 100
    base_offset: int = 0
    batches: int = 1
    damage: tuple[float, int] | None = None

    def frame(self, correlation_id: int) -> bytes:
        producer_id, epoch, sequence = self.producer
        records = build_batch(
            [(NOW + size, None, b"v" * size, ()) for size in self.values],
            base_offset=self.base_offset,
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=self.transactional,
        )
        rows = [PartitionProduceData(self.partition, records * self.batches)]
        if self.also is not None:
            rows.append(PartitionProduceData(self.also, records))
        message = ProduceRequest(
            self.transactional_id,
            self.acks,
            self.timeout_ms,
            [TopicProduceData(self.topic, rows)],
        )
        header = RequestHeader(0, self.version, correlation_id, self.client_id)
        frame = bytearray(encode_request(header, message))
        if self.damage is not None:
            share, bit = self.damage
            frame[4 + int(share * (len(frame) - 4))] ^= 1 << bit
        return bytes(frame)


@dataclass(frozen=True)
class Read:
    """Requests of one connection that arrive together."""

    connection: int
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Fetch:
    """A Fetch of a consumer (-1) or of the follower."""

    connection: int
    replica_id: int
    partition: int
    offset: int
    min_bytes: int


@dataclass(frozen=True)
class Change:
    """Something else that happens: a time in ms, a configuration, an election, a broken disk."""

    kind: str
    value: int = 0


SMALL = st.integers(0, 3)
PRODUCERS = st.one_of(
    st.just((-1, -1, -1)), st.tuples(st.integers(1, 2), st.integers(0, 1), st.integers(-1, 4))
)
COMMON = st.builds(
    Request,
    version=st.integers(OLDEST_VERSION, LAST_VERSION),
    acks=st.sampled_from([1, 1, -1]),
    client_id=st.sampled_from(["c", "", None]),
    partition=st.sampled_from(PARTITIONS),
    values=st.lists(st.integers(0, 200), min_size=1, max_size=3).map(tuple),
    producer=PRODUCERS,
    timeout_ms=st.sampled_from([100, 0, -5]),
)
DIFFERENCES: tuple[dict[str, Any], ...] = (
    {"acks": 0},
    {"acks": 3},
    {"client_id": "é"},
    {"client_id": "__admin_client", "topic": "__consumer_offsets"},
    {"topic": "unknown"},
    {"topic": ""},
    {"topic": "t" * 130},
    {"partition": 7},
    {"partition": -1},
    {"also": 1},
    {"compression": Compression.GZIP},
    {"compression": Compression.ZSTD},
    {"transactional_id": "t"},
    {"transactional": True, "producer": (5, 0, 0)},
    {"base_offset": 3},
    {"batches": 2},
    {"batches": 0},
)
ODD = st.tuples(
    COMMON,
    st.sampled_from(DIFFERENCES),
).map(lambda pair: replace(pair[0], **pair[1]))
DAMAGED = st.tuples(COMMON, st.floats(0, 0.999), st.integers(0, 7)).map(
    lambda three: replace(three[0], damage=(three[1], three[2]))
)
READS = st.builds(
    Read,
    st.integers(0, CONNECTIONS - 1),
    st.lists(st.one_of(COMMON, COMMON, COMMON, ODD, DAMAGED), min_size=1, max_size=5).map(tuple),
)
FETCHES = st.builds(
    Fetch,
    st.integers(0, CONNECTIONS - 1),
    st.sampled_from([-1, FOLLOWER, FOLLOWER]),
    st.sampled_from([0, REPLICATED]),
    st.integers(0, 8),
    st.sampled_from([1, 300]),
)
CHANGES = st.one_of(
    st.builds(Change, st.just("time"), st.sampled_from([1, 60, 500])),
    st.builds(Change, st.just("config"), st.integers(0, len(CONFIGS) - 1)),
    st.builds(Change, st.just("leader"), st.sampled_from([1, 1, FOLLOWER])),
    st.builds(Change, st.just("isr")),
    st.builds(Change, st.just("disk")),
    st.builds(Change, st.just("watch")),
)
STEPS = st.lists(st.one_of(READS, READS, READS, FETCHES, CHANGES), min_size=1, max_size=12)


def fetch_frame(fetch: Fetch, correlation_id: int) -> bytes:
    part = FetchPartition(fetch.partition, fetch_offset=fetch.offset, partition_max_bytes=1 << 20)
    message = FetchRequest(
        replica_id=fetch.replica_id,
        max_wait_ms=400,
        min_bytes=fetch.min_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])],
    )
    return encode_request(RequestHeader(1, 12, correlation_id, "f"), message)


class Player:
    """Plays the same steps on both sides. Correlation ids are numbers of requests."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._requests = 0

    async def play(self, step: Read | Fetch | Change) -> None:
        side = self.side
        if isinstance(step, Read):
            frames = b"".join(request.frame(self._next()) for request in step.requests)
            side.transports[step.connection].receive(frames)
        elif isinstance(step, Fetch):
            side.transports[step.connection].receive(fetch_frame(step, self._next()))
        elif step.kind == "time":
            await side.cluster.clock.advance(step.value)
        elif step.kind == "config":
            side.configure(**CONFIGS[step.value])
        elif step.kind == "leader":
            await side.elect(step.value)
        elif step.kind == "isr":
            await side.elect(1, isr=(1,))
        elif step.kind == "disk":
            side.break_disk()
        else:
            side.watch()
        await side.settle()

    def _next(self) -> int:
        self._requests += 1
        return self._requests


async def compare(steps: list[Read | Fetch | Change]) -> int:
    """Play the steps on both sides and compare after each. Return how many requests the common
    path has served."""
    sides = Side(with_common=False), Side(with_common=True)
    players = [Player(side) for side in sides]
    for side in sides:
        await side.open()
    try:
        for number, step in enumerate(steps):
            for player in players:
                await player.play(step)
            general, common = (side.state() for side in sides)
            for key, value in general.items():
                assert common[key] == value, f"{key} after step {number}, {step}"
    finally:
        for side in sides:
            await side.close()
    return sides[1].served_commonly


@pytest.mark.mission("FAST-1")
@given(steps=STEPS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_both_paths_have_the_same_effects(steps: list[Read | Fetch | Change]) -> None:
    asyncio.run(compare(steps))


@pytest.mark.mission("FAST-2")
@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 0)])
async def test_a_common_request_does_not_reach_the_general_path(
    version: int, acks: int, producer: tuple[int, int, int]
) -> None:
    request = Request(version=version, acks=acks, producer=producer)
    assert await compare([Read(0, (request,)), Read(1, (replace(request, partition=1),))]) == 2


@pytest.mark.mission("FAST-2", "GLASS-50")
async def test_requests_that_a_page_watches_are_common_too() -> None:
    replicated = Request(acks=-1, partition=REPLICATED)
    steps: list[Read | Fetch | Change] = [
        Change("watch"),
        Read(0, (Request(), replicated)),
        Change("time", 500),
    ]
    side = Side(with_common=True)
    await side.open()
    try:
        player = Player(side)
        for step in steps:
            await player.play(step)
        shown = side.state()["watched"]["last"]
        assert [(each["correlation_id"], each["client_id"]) for each in shown] == [
            (2, "c"),
            (1, "c"),
        ]
        assert [each["remote_us"] for each in shown] == [100_000, 0]
        assert side.served_commonly == 2
    finally:
        await side.close()
    await compare([*steps, Change("disk"), Read(0, (Request(),))])


@pytest.mark.mission("FAST-3")
@pytest.mark.parametrize(
    "odd",
    [
        {"version": 4},
        {"acks": 0},
        {"client_id": "é"},
        {"also": 1},
        {"topic": "unknown"},
        {"compression": Compression.GZIP},
        {"transactional_id": "t"},
        {"base_offset": 1},
        {"batches": 2},
        {"producer": (7, 0, 3)},
    ],
)
async def test_an_unusual_request_reaches_the_general_path(odd: dict[str, Any]) -> None:
    first = Request(partition=1, producer=(7, 0, 0))
    second = replace(first, **{"producer": (-1, -1, -1), **odd})
    assert await compare([Read(0, (first, second))]) == 1


@pytest.mark.mission("FAST-3")
async def test_a_batch_that_is_in_the_log_is_not_given_to_the_general_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What completes after an append may raise any error, one of Kafka's among them."""
    side = Side(with_common=True)
    await side.open()
    try:
        general = side.apis.frames
        bugs: list[Exception] = []
        monkeypatch.setattr(side.apis, "stop_node", bugs.append)

        def fails(topic_partition: object) -> None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

        purgatories = side.node.replicas.purgatories
        for name in ("partition_changed", "log_end_moved"):
            monkeypatch.setattr(purgatories, name, fails)
        with pytest.raises(KafkaError):
            side.transports[0].receive(Request().frame(1))
        found = side.node.replicas.hosted.get(TopicPartition(TOPIC, 0))
        assert found is not None
        assert found.log.log_end_offset == 1
        assert (len(bugs), side.apis.frames) == (1, general)
    finally:
        await side.close()
