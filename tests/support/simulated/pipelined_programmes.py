"""Random requests of one connection, for a broker that gets them pipelined or one at a time. The
outcomes of both can be compared: names, ids and times that differ between runs are left out."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from minikafka.network.channel import Channel
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    delete_records,
    delete_topics,
    describe_groups,
    describe_transactions,
    fetch,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.record import decode_batch
from minikafka.protocol.schema import Message
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated import pipelining as pipe

_MEMBER_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PRODUCER_ID = re.compile(r"(?<=producer )\d+")
WAIT_MS = 20
REBALANCE_MS = 3_000
SESSION_MS = 60_000


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """What one run of a programme has to itself, on the broker that leads and coordinates all.

    ``solo`` has one replica, ``trio`` three."""

    prefix: str
    broker: int
    solo: str
    trio: str
    group: str
    joined: str
    transactional_id: str
    other_id: str
    producer: tuple[int, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, index) for topic in (self.solo, self.trio) for index in (0, 1)
        ]

    def replace(self, text: str) -> str:
        for name in (self.group, self.joined, self.transactional_id, self.other_id):
            text = text.replace(name, name.removeprefix(self.prefix).rpartition("-")[0])
        return text.replace(self.prefix, "")


# A request and its version, for any run.
Step: TypeAlias = Callable[[Names], tuple[Message, int]]


def programme(seed: int) -> list[list[Step]]:
    """Return requests in segments whose requests are pipelined. A request whose work continues
    after its response, such as the markers of a transaction, ends its segment."""
    rng = random.Random(seed)
    steps = _Steps(rng)
    segments = []
    for _ in range(rng.randint(1, 3)):
        segment = [steps.any() for _ in range(rng.randint(3, 12))]
        segments.append([*steps.first(), *segment, steps.last()])
    if rng.random() < 0.15:
        place = rng.randrange(len(segments[-1]))
        segments[-1].insert(place, steps.fatal())
    return segments


class _Steps:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self._sequences: dict[tuple[str, int], int] = {}
        self._kinds: list[tuple[Callable[[], Step], int]] = [
            (self.plain, 4),
            (self.transactional, 8),
            (self.add_partition, 3),
            (self.add_offsets, 1),
            (self.commit_in_transaction, 3),
            (self.commit, 2),
            (self.fetch_offsets, 2),
            (self.list_offsets, 3),
            (self.fetch, 4),
            (self.delete_records, 1),
            (self.join, 1),
            (self.leave, 1),
            (self.heartbeat, 1),
            (self.describe, 1),
            (self.other_init, 1),
            (self.create_topic, 1),
        ]

    def first(self) -> list[Step]:
        """Return the first requests: in most programmes a transaction in three of the four
        partitions."""
        if self._rng.random() < 0.3:
            return []
        places = self._rng.sample(range(4), 3)
        return [self._add_partitions(places), self.add_offsets()]

    def any(self) -> Step:
        kinds, weights = zip(*self._kinds, strict=True)
        step: Step = self._rng.choices(kinds, weights)[0]()
        return step

    def last(self) -> Step:
        committed, choice = self._rng.random() < 0.5, self._rng.random()
        if choice < 0.7:
            return lambda n: (pipe.end(n.transactional_id, n.producer, committed), 3)
        if choice < 0.8:
            return lambda n: (pipe.init(n.transactional_id), 4)
        if choice < 0.9:
            names = delete_topics.DeleteTopicsRequest
            return lambda n: (names(topic_names=[n.prefix + "new"], timeout_ms=5_000), 5)
        return self.any()

    def fatal(self) -> Step:
        """Return a request to which the broker responds by closing the connection."""
        batch = pipe.records("nowhere")
        return lambda n: (pipe.produce((TopicPartition("nowhere", 0), batch), acks=0), 9)

    def _value(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _where(self) -> Callable[[Names], TopicPartition]:
        place = self._rng.randrange(4)
        return lambda n: n.partitions[place]

    def plain(self) -> Step:
        place, value = self._rng.randrange(4), self._value()
        acks = self._rng.choice([-1, 1, 0]) if place < 2 else -1
        return lambda n: (pipe.produce((n.partitions[place], pipe.records(value)), acks=acks), 9)

    def transactional(self) -> Step:
        places = self._rng.sample(range(4), self._rng.choice([1, 1, 1, 2]))
        values = [self._value() for _ in places]
        sequences = [self._sequences.get(("txn", place), 0) for place in places]
        self._sequences |= {("txn", p): s + 1 for p, s in zip(places, sequences, strict=True)}

        def step(n: Names) -> tuple[Message, int]:
            batches = [
                (n.partitions[p], pipe.records(v, n.producer, s, transactional=True))
                for p, v, s in zip(places, values, sequences, strict=True)
            ]
            return pipe.produce(*batches, transactional_id=n.transactional_id), 9

        return step

    def add_partition(self) -> Step:
        return self._add_partitions(self._rng.sample(range(4), self._rng.randint(1, 3)))

    def _add_partitions(self, places: list[int]) -> Step:
        return lambda n: (
            pipe.add_partitions(n.transactional_id, n.producer, *(n.partitions[p] for p in places)),
            3,
        )

    def add_offsets(self) -> Step:
        request = add_offsets_to_txn.AddOffsetsToTxnRequest
        return lambda n: (request(n.transactional_id, *n.producer, n.group), 3)

    def commit_in_transaction(self) -> Step:
        place, offset = self._rng.randrange(4), self._rng.randrange(100)

        def step(n: Names) -> tuple[Message, int]:
            name, index = n.partitions[place]
            rows = [txn_offset_commit.TxnOffsetCommitRequestPartition(index, offset)]
            topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name, rows)]
            request = txn_offset_commit.TxnOffsetCommitRequest(
                n.transactional_id, n.group, *n.producer, topics=topics
            )
            return request, 3

        return step

    def commit(self) -> Step:
        place, offset = self._rng.randrange(4), self._rng.randrange(100)

        def step(n: Names) -> tuple[Message, int]:
            name, index = n.partitions[place]
            rows = [offset_commit.OffsetCommitRequestPartition(index, offset)]
            topics = [offset_commit.OffsetCommitRequestTopic(name, partitions=rows)]
            return offset_commit.OffsetCommitRequest(n.group, topics=topics), 6

        return step

    def fetch_offsets(self) -> Step:
        stable = self._rng.random() < 0.7
        request = offset_fetch.OffsetFetchRequest
        return lambda n: (request(n.group, None, require_stable=stable), 7)

    def list_offsets(self) -> Step:
        where, when = self._where(), self._rng.choice([-1, -2])
        isolation = self._rng.randrange(2)

        def step(n: Names) -> tuple[Message, int]:
            name, index = where(n)
            partition = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=when)
            topics = [list_offsets.ListOffsetsTopic(name, [partition])]
            return list_offsets.ListOffsetsRequest(-1, isolation, topics), 5

        return step

    def fetch(self) -> Step:
        where, offset = self._where(), self._rng.choice([0, 0, 1, 3, 8])
        isolation, min_bytes = self._rng.randrange(2), self._rng.choice([1, 1, 1_000_000])

        def step(n: Names) -> tuple[Message, int]:
            name, index = where(n)
            partition = fetch.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            request = fetch.FetchRequest(
                replica_id=-1,
                max_wait_ms=WAIT_MS,
                min_bytes=min_bytes,
                isolation_level=isolation,
                session_epoch=-1,
                topics=[fetch.FetchTopic(topic=name, partitions=[partition])],
            )
            return request, 11

        return step

    def delete_records(self) -> Step:
        where, offset = self._where(), self._rng.choice([-1, 1, 2])

        def step(n: Names) -> tuple[Message, int]:
            name, index = where(n)
            partition = delete_records.DeleteRecordsPartition(index, offset)
            topics = [delete_records.DeleteRecordsTopic(name, [partition])]
            return delete_records.DeleteRecordsRequest(topics, 30_000), 2

        return step

    def join(self) -> Step:
        instance = self._rng.choice(["i1", "i2"])
        protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
        return lambda n: (
            join_group.JoinGroupRequest(
                n.joined, SESSION_MS, REBALANCE_MS, "", instance, "consumer", protocols
            ),
            7,
        )

    def leave(self) -> Step:
        members = [leave_group.MemberIdentity("", self._rng.choice(["i1", "i2"]))]
        return lambda n: (leave_group.LeaveGroupRequest(n.joined, members=members), 4)

    def heartbeat(self) -> Step:
        request = heartbeat.HeartbeatRequest
        return lambda n: (request(n.joined, 1, "", "i1"), 4)

    def describe(self) -> Step:
        if self._rng.random() < 0.5:
            return lambda n: (describe_groups.DescribeGroupsRequest([n.joined]), 5)
        request = describe_transactions.DescribeTransactionsRequest
        return lambda n: (request([n.transactional_id]), 0)

    def other_init(self) -> Step:
        return lambda n: (pipe.init(n.other_id), 4)

    def create_topic(self) -> Step:
        def step(n: Names) -> tuple[Message, int]:
            assignments = [CreatableReplicaAssignment(0, [n.broker])]
            topic = CreatableTopic(n.prefix + "new", -1, -1, assignments)
            return CreateTopicsRequest([topic], pipe.TIMEOUT_MS), 7

        return step


# -- playing a programme, and what came of it


async def prepared(cluster: SimCluster, channel: Channel, broker: int, prefix: str) -> Names:
    """Create topics and a producer for one run."""
    others = [b for b in cluster.broker_ids if b != broker]
    for topic, replicas in (("solo", [broker]), ("trio", [broker, *others])):
        await pipe.create(channel, prefix + topic, [replicas, replicas])
    transactional_id = pipe.coordinated(
        cluster, TRANSACTION_STATE_TOPIC, prefix + "transaction", broker
    )
    begun = await channel.request(pipe.init(transactional_id), 4, pipe.TIMEOUT_MS)
    assert begun.error_code == 0
    names = Names(
        prefix,
        broker,
        prefix + "solo",
        prefix + "trio",
        pipe.coordinated(cluster, GROUP_METADATA_TOPIC, prefix + "group", broker),
        pipe.coordinated(cluster, GROUP_METADATA_TOPIC, prefix + "joined", broker),
        transactional_id,
        pipe.coordinated(cluster, TRANSACTION_STATE_TOPIC, prefix + "other", broker),
        (begun.producer_id, begun.producer_epoch),
    )
    await cluster.until_whole(*(tp for tp in names.partitions if tp.topic == names.trio))
    await asyncio.sleep(1)
    return names


async def outcome(
    cluster: SimCluster, names: Names, segments: list[list[Step]], rng: random.Random | None
) -> list[tuple[str, Any]]:
    """Return each request with its response, the contents of the logs, and the coordinators'
    states. ``rng`` is as for ``pipelining.send``."""
    likeness = _Likeness(names)
    channel = await pipe.connected(cluster, names.broker)
    came: list[tuple[str, Any]] = []
    for segment in segments:
        requests = [step(names) for step in segment]
        responses = await pipe.send(channel, requests, rng)
        for (request, _), response in zip(requests, responses, strict=True):
            came.append((likeness.text_of(request), likeness.of(response)))
        if "nowhere" in str(requests):
            # Requests that reach a closed connection reset it, and replies may be lost on the way.
            came[-len(requests) :] = [(text, None) for text, _ in came[-len(requests) :]]
        await asyncio.sleep(1)
    channel.close()
    looking = await pipe.connected(cluster, names.broker)
    final: list[tuple[Message, int]] = [
        (offset_fetch.OffsetFetchRequest(names.group, None), 7),
        (describe_groups.DescribeGroupsRequest([names.joined]), 5),
        (describe_transactions.DescribeTransactionsRequest([names.transactional_id]), 0),
    ]
    for request, version in final:
        response = await looking.request(request, version, pipe.TIMEOUT_MS)
        came.append(("finally " + likeness.text_of(request), likeness.of(response)))
    looking.close()
    for where in names.partitions:
        start = cluster.replicas(where)[names.broker].log.log_start_offset
        batches = [likeness.of(batch) for batch in pipe.held(cluster, names.broker, where)]
        came.append((names.replace(f"finally {where}"), (start, batches)))
    return came


class _Likeness:
    """Messages as plain values. Ids that a broker chose become numbers in order of appearance."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._producers: dict[int, int] = {-1: -1}
        self._members: dict[str, str] = {}
        self._producer(names.producer[0])

    def _producer(self, producer_id: int) -> int:
        return self._producers.setdefault(producer_id, len(self._producers))

    def text_of(self, request: Message) -> str:
        return f"{type(request).__name__} {self.of(request)}"

    def of(self, value: Any, field: str = "") -> Any:
        if isinstance(value, RecordBatch):
            records = [(r.offset, bytes(r.value or b"")) for r in decode_batch(value)]
            return (
                self._producer(value.producer_id),
                value.producer_epoch,
                value.base_sequence,
                value.attributes,
                records,
            )
        if dataclasses.is_dataclass(value):
            return {
                f.name: self.of(getattr(value, f.name), f.name) for f in dataclasses.fields(value)
            }
        if isinstance(value, list | tuple):
            return [self.of(item, field) for item in value]
        if field == "records":
            return [self.of(batch) for batch in parse_batches(value or b"")]
        if field.endswith("producer_id"):
            return self._producer(value)
        if field in ("topic_id", "transaction_start_time_ms"):
            return None
        if isinstance(value, str):
            text = _MEMBER_ID.sub(lambda found: self._member(found.group()), value)
            text = _PRODUCER_ID.sub(lambda found: str(self._producer(int(found.group()))), text)
            return self._names.replace(text)
        return value

    def _member(self, member_id: str) -> str:
        return self._members.setdefault(member_id, f"member{len(self._members)}")
