"""The path of common Fetch requests does what the general path does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.broker.requests.common_fetch import (
    FIRST_BY_ID,
    FIRST_VERSION,
    JOINED_BYTES,
    LAST_VERSION,
)
from minikafka.core.log.append import AppendOrigin
from minikafka.core.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
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
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from tests.support.broker.both_paths import NOW, Change, Damage, Player, compared, damaged, varied
from tests.support.broker.replicas import TOPIC, TOPIC_ID
from tests.support.broker.two_paths import CONNECTIONS, FOLLOWER, PARTITIONS, Side

OLDEST_VERSION = 7  # of the random requests
PRODUCER = 7
CONFIGS: tuple[dict[str, Any], ...] = ({}, {"segment_bytes": 300})


@dataclass(frozen=True)
class Fetch:
    """A Fetch request. ``session`` is a session id's place among those of the broker, and what is
    added to its epoch; or an epoch of a full request."""

    connection: int = 0
    version: int = 12
    client_id: str | None = "c"
    replica_id: int = -1
    partition: int = 0
    also: int | None = None  # a second partition
    names_none: bool = False
    forgets: bool = False
    topic: str = TOPIC
    topic_id: UUID = TOPIC_ID
    offset: int = 0
    max_wait_ms: int = 400
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    partition_max_bytes: int = 1 << 20
    isolation: int = 0
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    rack: str = ""
    session: tuple[int, int] | int = FINAL_EPOCH
    damage: Damage | None = None

    def frame(self, correlation_id: int, side: Side) -> bytes:
        row = FetchPartition(
            self.partition,
            self.leader_epoch,
            self.offset,
            self.last_fetched_epoch if self.version >= 12 else -1,
            self.log_start_offset,
            self.partition_max_bytes,
        )
        rows = [row] if self.also is None else [row, replace(row, partition=self.also)]
        session_id, epoch = NO_SESSION, self.session
        if isinstance(epoch, tuple):
            place, shift = epoch
            session_id, known = side.session(place)
            epoch = known + shift
        in_state = self.replica_id >= 0 and self.version >= 15
        message = FetchRequest(
            replica_id=-1 if in_state else self.replica_id,
            replica_state=ReplicaState(self.replica_id, 1) if in_state else None,
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            session_id=session_id,
            session_epoch=epoch,
            topics=[] if self.names_none else [FetchTopic(self.topic, self.topic_id, rows)],
            forgotten_topics_data=[ForgottenTopic(TOPIC, TOPIC_ID, [1])] if self.forgets else [],
            rack_id=self.rack if self.version >= 11 else "",
        )
        header = RequestHeader(1, self.version, correlation_id, self.client_id)
        return damaged(encode_request(header, message), self.damage)


@dataclass(frozen=True)
class Produce:
    """A batch of values of these sizes, of a transaction or not."""

    partition: int = 0
    values: tuple[int, ...] = (10,)
    transactional: bool = False


COMMON = st.builds(
    Fetch,
    connection=st.integers(0, CONNECTIONS - 1),
    version=st.integers(OLDEST_VERSION, LAST_VERSION),
    client_id=st.sampled_from(["c", "", None]),
    partition=st.sampled_from(PARTITIONS),
    offset=st.integers(0, 6),
    max_wait_ms=st.sampled_from([0, 400, 400]),
    min_bytes=st.sampled_from([-1, 0, 1, 1, 150, 100_000]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 150, 0, -1]),
    partition_max_bytes=st.sampled_from([1 << 20, 1 << 20, 150, 0, -1]),
    isolation=st.sampled_from([0, 1]),
    leader_epoch=st.sampled_from([-1, -1, 0, 1, 2]),
    session=st.one_of(
        st.sampled_from([FINAL_EPOCH, INITIAL_EPOCH]),
        st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 0, 1, -1])),
    ),
)
DIFFERENCES: tuple[dict[str, Any], ...] = (
    {"client_id": "é"},
    {"replica_id": FOLLOWER},
    {"partition": 7},
    {"partition": -1},
    {"also": 1},
    {"also": 0},
    {"names_none": True},
    {"forgets": True},
    {"topic": "unknown", "topic_id": UUID(int=99)},
    {"topic": "", "topic_id": ZERO_UUID},
    {"topic": "t" * 130},
    {"offset": 60},
    {"offset": -5},
    {"isolation": 2},
    {"last_fetched_epoch": 0},
    {"log_start_offset": 0},
    {"rack": "r1"},
)
PRODUCES = st.builds(
    Produce,
    st.sampled_from(PARTITIONS),
    st.lists(st.integers(0, 200), min_size=1, max_size=3).map(tuple),
    st.booleans(),
)
CHANGES = st.one_of(
    st.builds(Change, st.just("time"), st.sampled_from([1, 60, 500])),
    st.builds(Change, st.just("config"), st.integers(0, len(CONFIGS) - 1)),
    st.builds(Change, st.just("leader"), st.sampled_from([1, 1, FOLLOWER])),
    st.builds(Change, st.just("disk")),
    st.builds(Change, st.just("watch")),
    st.builds(Change, st.sampled_from(["commit", "abort"]), st.sampled_from(PARTITIONS)),
)
FETCHES = varied(COMMON, DIFFERENCES)
STEPS = st.lists(st.one_of(FETCHES, FETCHES, PRODUCES, CHANGES), min_size=1, max_size=14)
Steps = list[Fetch | Produce | Change]


def produce_frame(produce: Produce, correlation_id: int, sequence: int) -> bytes:
    transactional = produce.transactional
    records = build_batch(
        [(NOW, None, b"v" * size, ()) for size in produce.values],
        producer_id=PRODUCER if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=sequence if transactional else -1,
        transactional=transactional,
    )
    rows = [PartitionProduceData(produce.partition, records)]
    name = "t" if transactional else None
    message = ProduceRequest(name, 1, 100, [TopicProduceData(TOPIC, rows)])
    return encode_request(RequestHeader(0, 9, correlation_id, "p"), message)


class ConsumerPlayer(Player[Fetch | Produce]):
    """Ends the transaction in a partition besides (commit or abort)."""

    configs = CONFIGS

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        self._sequences = dict.fromkeys(PARTITIONS, 0)

    def send(self, step: Fetch | Produce) -> None:
        transports = self.side.transports
        if isinstance(step, Fetch):
            transports[step.connection].receive(step.frame(self.next_id(), self.side))
            return
        sequence = self._sequences[step.partition]
        if step.transactional:
            self._sequences[step.partition] += len(step.values)
        transports[0].receive(produce_frame(step, self.next_id(), sequence))

    async def change(self, change: Change) -> None:
        if change.kind in ("commit", "abort"):
            self._end_transaction(change.value, change.kind == "commit")
        else:
            await super().change(change)

    def _end_transaction(self, index: int, is_committed: bool) -> None:
        kind = ControlRecordType.COMMIT if is_committed else ControlRecordType.ABORT
        key, value = encode_end_txn_marker(EndTxnMarker(kind, 0))
        marker = build_batch(
            [(NOW, key, value, ())],
            producer_id=PRODUCER,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        replicas = self.side.node.replicas
        found = replicas.hosted.get(TopicPartition(TOPIC, index))
        if found is not None and found.is_leader and not self.side.is_broken:
            found.append_as_leader(marker, 1, NOW, 0, AppendOrigin.COORDINATOR)
            replicas.purgatories.partition_changed(found.topic_partition)


async def compare(steps: Steps) -> int:
    """Compare both paths, and return how many Fetch requests the common one has served."""
    return (await compared(ConsumerPlayer, steps)).fetched_commonly


@pytest.mark.mission("FET-19")
@given(steps=STEPS)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_both_paths_have_the_same_effects(steps: Steps) -> None:
    asyncio.run(compare([Produce(), Produce(1, (100, 100)), *steps]))


@pytest.mark.mission("FET-20")
@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
@pytest.mark.parametrize("isolation", [0, 1])
async def test_a_common_request_does_not_reach_the_general_path(
    version: int, isolation: int
) -> None:
    fetch = Fetch(version=version, isolation=isolation, leader_epoch=1)
    opens, goes_on = replace(fetch, session=INITIAL_EPOCH), replace(fetch, session=(0, 0))
    more = replace(goes_on, offset=1)
    steps: Steps = [Produce(), Produce(values=(1, 2)), fetch, opens, goes_on, more, goes_on]
    large = replace(fetch, offset=3)
    assert await compare([*steps, Produce(values=(JOINED_BYTES,)), large]) == 5


@pytest.mark.mission("FET-20")
@pytest.mark.parametrize(
    "odd",
    [
        {"version": 9},
        {"client_id": "é"},
        {"replica_id": FOLLOWER, "partition": 2},
        {"also": 1},
        {"topic": "unknown"},
        {"partition": 2},
        {"offset": 1},
        {"min_bytes": 1_000},
        {"leader_epoch": 0},
        {"rack": "r1"},
        {"session": INITIAL_EPOCH},
        {"session": (0, 0)},
    ],
)
async def test_an_unusual_request_reaches_the_general_path(odd: dict[str, Any]) -> None:
    steps: Steps = [Produce(), Produce(2), Fetch(**odd), Change("time", 500), Fetch()]
    assert await compare(steps) == 1


@pytest.mark.mission("FET-20", "GLASS-50")
async def test_requests_that_a_page_watches_are_common_too() -> None:
    async with Side(with_common=True) as side:
        more = Produce(values=(JOINED_BYTES,))
        player = ConsumerPlayer(side)
        await player.play(Produce(), more, Change("watch"), Fetch(), Fetch(offset=1))
        shown = side.state()["watched"]["last"]
        assert [(each["api"], each["correlation_id"]) for each in shown] == [
            ("FetchConsumer", 4),
            ("FetchConsumer", 3),
        ]
        assert side.served_commonly == 2 + 2  # Produce, and Fetch


@pytest.mark.mission("FET-20")
async def test_a_session_of_two_partitions_and_aborted_records_have_the_general_path() -> None:
    two = Fetch(also=1, session=INITIAL_EPOCH)
    one_of_two = Fetch(session=(0, 0))
    committed = Fetch(2, partition=1, isolation=1)
    steps: Steps = [Produce(), Produce(1, transactional=True), Change("abort", 1), two, one_of_two]
    assert await compare([*steps, committed]) == 0
    assert await compare([*steps, replace(committed, isolation=0)]) == 1


@pytest.mark.mission("FET-20")
async def test_a_bug_of_the_common_path_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Side(with_common=True) as side:
        player = ConsumerPlayer(side)
        await player.play(Produce())
        bugs: list[Exception] = []
        monkeypatch.setattr(side.apis, "stop_node", bugs.append)

        def fails(*_: object) -> None:
            raise ValueError("bug")

        monkeypatch.setattr(side.node.replicas.fetches, "count_one", fails)
        with pytest.raises(ValueError, match="bug"):
            await player.play(Fetch())
        assert len(bugs) == 1


@pytest.mark.mission("FET-20")
async def test_forms_and_responses_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may name each partition in each version, and make up client ids."""
    monkeypatch.setattr("minikafka.broker.requests.common_fetch.MAX_TARGETS", 3)
    monkeypatch.setattr("minikafka.broker.requests.common_fetch.MAX_PACKED", 2)
    async with Side(with_common=True) as side:
        append_one(side)
        before, versions = side.served_commonly, range(FIRST_VERSION, LAST_VERSION + 1)
        for version in versions:
            for client_id in ("a", "b"):
                fetch = Fetch(version=version, client_id=client_id)
                side.transports[0].receive(fetch.frame(version, side))
                assert len(side.common_fetches._targets) in (1, 2, 3)
                assert len(side.common_fetches._packed) in (1, 2)
        assert side.served_commonly - before == 2 * len(versions)


@pytest.mark.mission("FET-20")
async def test_only_a_client_that_has_got_records_is_remembered() -> None:
    async with Side(with_common=True) as side:
        side.transports[0].receive(Fetch(max_wait_ms=0).frame(1, side))
        assert not side.common_fetches._targets
        append_one(side)
        side.transports[0].receive(Fetch(max_wait_ms=0).frame(2, side))
        assert len(side.common_fetches._targets) == 1


@pytest.mark.mission("FET-20")
async def test_a_topic_that_is_made_again_without_an_id_is_another_one() -> None:
    """An old controller sends none."""
    async with Side(with_common=True) as side:
        append_one(side)
        fetch = Fetch(version=FIRST_BY_ID, max_wait_ms=0)
        side.transports[0].receive(fetch.frame(1, side))
        assert side.fetched_commonly == 1
        rows = [StopReplicaPartitionState(partition, -2, True) for partition in PARTITIONS]
        topics = [StopReplicaTopicState(TOPIC, rows)]
        stop = StopReplicaRequest(controller_id=9, controller_epoch=1, topic_states=topics)
        await side.node.command(stop, 4)
        side.cluster.metadata.topic_ids.clear()
        await side.cluster.elect(
            1, isr=(1,), epoch=0, replicas=(1,), partitions=[0], topic_id=ZERO_UUID, version=4
        )
        append_one(side)
        side.transports[0].receive(fetch.frame(2, side))
        await side.settle()
        assert side.fetched_commonly == 1
        side.transports[0].receive(Fetch(version=FIRST_BY_ID - 1).frame(3, side))
        assert side.fetched_commonly == 2


def append_one(side: Side) -> None:
    records = build_batch([(NOW, None, b"v", ())])
    topics = [TopicProduceData(TOPIC, [PartitionProduceData(0, records)])]
    header, produce = RequestHeader(0, 9, 1), ProduceRequest(None, 1, 100, topics)
    side.transports[0].receive(encode_request(header, produce))
