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
from minikafka.world.memory.files import MemoryFile
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
QUOTAS: tuple[dict[str, str], ...] = (
    {},
    {"producer_byte_rate": "1000000000"},
    {"producer_byte_rate": "100", "request_percentage": "50"},
    {"producer_byte_rate": "5"},
    {"producer_byte_rate": "40"},
    {"consumer_byte_rate": "5"},
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


def in_a_row(connection: int, request: Request, sizes: list[int], step: int) -> Read:
    """Return requests that differ in their records and sequence numbers alone. The numbers are
    consecutive if ``step`` is 1."""
    producer_id, epoch, sequence = request.producer
    numbers = [sequence + step * place if sequence >= 0 else -1 for place in range(len(sizes))]
    return Read(
        connection,
        tuple(
            replace(request, values=(size,), producer=(producer_id, epoch, number))
            for size, number in zip(sizes, numbers, strict=True)
        ),
    )


ROWS = st.builds(
    in_a_row,
    st.integers(0, CONNECTIONS - 1),
    COMMON,
    st.lists(st.integers(0, 200), min_size=2, max_size=5),
    st.sampled_from([1, 1, 1, 0, 2]),
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
    st.builds(Change, st.just("full"), st.integers(0, 800)),
    st.builds(Change, st.just("watch")),
    st.builds(Change, st.just("acls"), st.integers(0, 3)),
    st.builds(Change, st.just("quota"), st.integers(0, len(QUOTAS) - 1)),
)
STEPS = st.lists(st.one_of(READS, READS, ROWS, ROWS, FETCHES, CHANGES), min_size=1, max_size=12)


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
        elif step.kind == "quota":
            side.quotas.set(None, "c", QUOTAS[step.value])
        elif step.kind == "acls":
            side.writers.allows = step.value < 2
            side.writers.logs_all = step.value == 1
        elif step.kind == "full":
            side.fill_disk(step.value)
        else:
            side.watch()
        await side.settle()

    def _next(self) -> int:
        self._requests += 1
        return self._requests


async def compare(steps: list[Read | Fetch | Change]) -> int:
    """Play the steps on both sides and compare after each. Return how many requests the common
    path has served."""
    return (await compared(steps)).served_commonly


async def compared(steps: list[Read | Fetch | Change], is_guarded: bool = False) -> Side:
    """As ``compare``, of brokers with an authorizer or without; return the side with the common
    path."""
    sides = Side(False, is_guarded), Side(True, is_guarded)
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
    return sides[1]


@pytest.mark.mission("FAST-1")
@given(steps=STEPS, is_guarded=st.booleans())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_both_paths_have_the_same_effects(
    steps: list[Read | Fetch | Change], is_guarded: bool
) -> None:
    asyncio.run(compared(steps, is_guarded))


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


@pytest.mark.mission("FAST-4", "GLASS-50")
async def test_each_request_that_is_served_with_others_is_watched() -> None:
    side = Side(with_common=True)
    await side.open()
    try:
        player = Player(side)
        await player.play(Read(0, (Request(),)))
        await player.play(Change("watch"))
        await player.play(in_a_row(0, Request(), [10, 10, 10], 0))
        shown = side.state()["watched"]["last"]
        assert [each["correlation_id"] for each in shown] == [4, 3, 2]
        assert side.served_together == 2  # with the one before
    finally:
        await side.close()


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


@pytest.mark.mission("FAST-4")
@pytest.mark.parametrize("version", [FIRST_VERSION, LAST_VERSION])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 1)])
@pytest.mark.parametrize("partition", [0, REPLICATED])
async def test_requests_of_one_read_are_appended_with_one_write(
    version: int,
    acks: int,
    producer: tuple[int, int, int],
    partition: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []
    write = MemoryFile.write_parts

    def note(file: MemoryFile, parts: Any, offset: int) -> None:
        written.append(len(parts))
        write(file, parts, offset)

    monkeypatch.setattr(MemoryFile, "write_parts", note)
    producer_id, epoch, sequence = producer
    first = Request(version, acks, producer=(producer_id, epoch, min(sequence, 0)))
    first = replace(first, partition=partition)
    row = in_a_row(0, replace(first, producer=producer), [10, 200, 10, 0], 1)
    steps: list[Read | Fetch | Change] = [Read(0, (first,)), row]
    assert (await compared([*steps, Fetch(1, FOLLOWER, partition, 5, 1)])).served_together == 3
    assert written == [4]


@pytest.mark.mission("FAST-8")
@pytest.mark.parametrize("replicated", [0, 1, 3, 4])
@pytest.mark.parametrize(
    "then",
    [
        Change("time", 500),
        Change("leader", FOLLOWER),
        Change("leader", 1),
        Change("isr"),
        Change("disk"),
        Change("watch"),
        Change("config", CONFIGS.index({"min_isr": 2})),
        Fetch(1, FOLLOWER, REPLICATED, 5, 1),
    ],
)
async def test_a_row_that_waits_gets_the_replies_of_single_requests(
    replicated: int, then: Change | Fetch
) -> None:
    first = Request(acks=-1, partition=REPLICATED)
    row = in_a_row(0, first, [10, 200, 10, 0], 1)
    fetched = Fetch(1, FOLLOWER, REPLICATED, 1 + replicated, 1)
    rest: list[Read | Fetch | Change] = [Read(0, (first,)), row, fetched, then]
    waits: list[Read | Fetch | Change] = [Read(0, (first, Request())), row, then, row, fetched]
    for steps in (rest, waits):
        last = Fetch(1, FOLLOWER, REPLICATED, 5, 1)
        await compared([Read(0, (Request(),)), *steps, last, Change("time", 500), row])


@pytest.mark.mission("FAST-8")
async def test_requests_that_are_appended_together_wait_as_one_operation() -> None:
    side = Side(with_common=True)
    await side.open()
    try:
        player, first = Player(side), Request(acks=-1, partition=REPLICATED)
        purgatory = side.node.replicas.purgatories.produce.purgatory
        for step, parked, waiting in (
            (Read(0, (first,)), 1, 1),
            (in_a_row(0, first, [10, 10, 10], 1), 2, 4),
            (Fetch(1, FOLLOWER, REPLICATED, 2, 1), 1, 2),
            (Fetch(1, FOLLOWER, REPLICATED, 4, 1), 0, 0),
        ):
            await player.play(step)
            assert (purgatory.delayed, len(side.state()["produces"])) == (parked, waiting)
    finally:
        await side.close()


@pytest.mark.mission("FAST-4")
@pytest.mark.parametrize(
    ("odd", "together"),
    [
        ({}, 4),
        ({"partition": 1}, 1),
        ({"acks": -1}, 1),
        ({"timeout_ms": 7}, 1),
        ({"client_id": "d"}, 1),
        ({"producer": (7, 0, 0)}, 1),
        ({"batches": 2}, 1),
        ({"base_offset": 1}, 1),
        ({"compression": Compression.GZIP}, 1),
        ({"damage": (0.97, 0)}, 1),
    ],
)
async def test_a_request_that_differs_ends_the_row_that_is_appended_together(
    odd: dict[str, Any], together: int
) -> None:
    plain = Request()
    row = (plain, plain, replace(plain, **odd), plain, plain)
    side = await compared([Read(0, (plain,)), Read(0, row)])
    # The two behind the odd one are appended together, too.
    assert side.served_together == (together if together == 4 else together + 1)


@pytest.mark.mission("FAST-4")
@pytest.mark.parametrize("room", [0, 40, 100, 200, 300, 1000])
@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 1)])
async def test_the_batches_of_a_row_that_fit_on_the_disk_are_in_the_log(
    room: int, producer: tuple[int, int, int]
) -> None:
    first = replace(Request(), producer=(*producer[:2], min(producer[2], 0)))
    row = in_a_row(0, replace(first, producer=producer), [30, 30, 30, 30], 1)
    await compare([Read(0, (first,)), Change("full", room), row, Read(0, (first,))])


@pytest.mark.mission("FAST-4")
@pytest.mark.parametrize("config", range(len(CONFIGS)))
async def test_a_row_rolls_segments_as_its_requests_would(config: int) -> None:
    row = in_a_row(0, Request(), [30, 30, 30, 30], 1)
    await compare([Change("config", config), *[row] * 4])


@pytest.mark.mission("FAST-4")
async def test_a_fetch_that_waits_for_the_first_batch_of_a_row_gets_no_more() -> None:
    row = in_a_row(0, Request(), [30, 30, 30], 1)
    side = await compared([row, Fetch(1, -1, 0, 3, 1), row])
    assert side.served_together == 1 + 1  # each first one is alone: of the log, and by the fetch


@pytest.mark.mission("FAST-4")
@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("sequence", [0, 3])
async def test_a_row_with_a_retry_or_a_gap_is_checked_batch_by_batch(
    step: int, sequence: int
) -> None:
    first = Request(producer=(7, 0, 0))
    row = in_a_row(0, replace(first, producer=(7, 0, sequence)), [30, 30, 30], step)
    await compare([Read(0, (first,)), row, Read(0, (replace(first, producer=(7, 0, 1)),))])


@pytest.mark.mission("FAST-6")
async def test_the_common_path_serves_requests_allowed_without_a_line_of_audit() -> None:
    row = Read(0, (Request(), Request()))
    steps: list[Read | Fetch | Change] = []
    for acls in (0, 1, 2, 0):  # allowed, allowed with a line, denied
        steps += [Change("acls", acls), row]
    side = await compared(steps, is_guarded=True)
    assert (side.served_commonly, len(side.writers.lines)) == (4, 4)


@pytest.mark.mission("FAST-7")
@pytest.mark.parametrize("quota", range(len(QUOTAS)))
@pytest.mark.parametrize("version", [FIRST_VERSION, 9, LAST_VERSION])
@pytest.mark.parametrize("acks", [1, -1])
async def test_clients_with_quotas_are_measured_and_throttled_on_the_common_path(
    quota: int, version: int, acks: int
) -> None:
    plain = Request(version, acks)
    replicated = replace(plain, partition=REPLICATED)
    steps: list[Read | Fetch | Change] = [
        Change("quota", quota),
        Read(0, (plain, plain, plain)),
        Change("time", 500),
        Read(0, (plain, replicated, replicated, plain)),
        Read(1, (replace(plain, client_id="d"), replace(plain, client_id=None))),
        Change("time", 60),
        Change("time", 500),
        Read(2, (plain, plain)),
    ]
    side = await compared(steps)
    is_throttled = QUOTAS[quota].get("producer_byte_rate") in ("5", "40")
    assert side.served_commonly == 11 or is_throttled
    await compare([*steps, Change("disk"), Read(2, (plain, plain))])


@pytest.mark.mission("FAST-7")
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(("quota", "together"), [(1, 5), (4, 1)])
async def test_requests_within_a_quota_are_served_together(
    acks: int, quota: int, together: int
) -> None:
    """The smaller quota has room for three requests in ten seconds."""
    first, two, five = (in_a_row(0, Request(acks=acks), [10] * count, 0) for count in (1, 2, 5))
    steps: list[Read | Fetch | Change] = [Change("quota", quota), first, two, five]
    side = await compared([*steps, Change("time", 500)])
    assert side.served_together == together


@pytest.mark.mission("FAST-7")
async def test_with_a_quota_the_next_request_waits_for_the_response() -> None:
    parked = Request(acks=-1, partition=REPLICATED)
    plain = Read(0, (Request(), Request()))
    row = Read(0, (parked, parked, *plain.requests))
    steps: list[Read | Fetch | Change] = [row, Change("quota", 1), plain, row]
    side = await compared([*steps, Change("time", 60), Change("time", 500)])
    assert side.served_together == 1  # the last two


@pytest.mark.mission("FAST-2")
async def test_forms_and_responses_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may name each partition in each version, and make up client ids."""
    monkeypatch.setattr("minikafka.broker.requests.common_produce.MAX_TARGETS", 3)
    monkeypatch.setattr("minikafka.broker.requests.common_produce.MAX_PACKED", 2)
    async with Side(with_common=True) as side:
        versions = range(FIRST_VERSION, LAST_VERSION + 1)
        for version in versions:
            for client_id in ("a", "b"):
                request = Request(version=version, client_id=client_id)
                side.transports[0].receive(request.frame(version))
                assert len(side.common._targets) in (1, 2, 3)
                assert len(side.common._packed) in (1, 2)
        assert side.served_commonly == 2 * len(versions)


@pytest.mark.mission("FAST-2")
async def test_only_a_client_that_may_write_and_has_valid_records_is_remembered() -> None:
    """Others could make the broker forget those of all clients, again and again."""
    async with Side(with_common=True, is_guarded=True) as side:
        frame = Request().frame(1)
        damaged = bytearray(frame)
        damaged[-5] ^= 0xFF  # in the records
        side.writers.allows = False
        side.transports[0].receive(frame)
        side.writers.allows = True
        side.transports[0].receive(bytes(damaged))
        await side.settle()
        assert not side.common._targets
        side.transports[1].receive(frame)
        assert len(side.common._targets) == 1
