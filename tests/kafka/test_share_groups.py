"""Official Kafka 4 and we give the same answers about share-partitions, and write the same records
of their states."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.records import (
    SharePartitionKey,
    ShareSnapshot,
    decode_record,
    encode_record,
)
from minikafka.core.share.state_requests import request_of
from minikafka.network.channel import Channel
from minikafka.protocol.messages import fetch as plain
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from minikafka.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from minikafka.protocol.messages.share_group_state import (
    DeletePartition,
    DeleteShareGroupStateRequest,
    InitializePartition,
    InitializeShareGroupStateRequest,
    ReadPartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    StateBatchRow,
    WritePartition,
    WriteShareGroupStateRequest,
)
from minikafka.protocol.records.batch import iterate_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import decode_records
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TIMEOUT_MS = 20_000
STATES = "__share_group_state"
TOPIC = "flights"
SHARE = 2  # the key type
UNKNOWN = UUID(int=7)


class Conversation:
    """The requests of a test to one broker, and what it has answered, as texts."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.topic_id = UUID(int=0)
        self.answers: list[tuple[str, str]] = []

    async def begin(self) -> None:
        """Create the topic, and wait until the share coordinator is there."""
        create = CreateTopicsRequest([CreatableTopic(TOPIC, 2, 1)], timeout_ms=TIMEOUT_MS)
        await self.request(create, 5)
        while not self.topic_id.int:
            wanted = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
            (row,) = (await self.request(wanted, 12)).topics
            self.topic_id = row.topic_id
        for _ in range(200):
            (found,) = (await self.find(self.key())).coordinators
            summary = await self.request(
                request_of(
                    ReadShareGroupStateSummaryRequest,
                    "probe",
                    {TopicIdPartition(self.topic_id, 0): ReadPartition(0)},
                ),
                1,
            )
            if not found.error_code and not summary.results[0].partitions[0].error_code:
                return
            await asyncio.sleep(0.1)

    def key(self) -> str:
        return SharePartitionKey("group", TopicIdPartition(self.topic_id, 0)).coordinator_key

    async def find(self, *keys: str, version: int = 6) -> Any:
        request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=list(keys))
        return await self.request(request, version)

    async def request(self, message: Any, version: int) -> Any:
        return await self._channel.request(message, version, TIMEOUT_MS)

    async def state(
        self,
        label: str,
        kind: type[Any],
        *rows: Any,
        group: str = "group",
        version: int | None = None,
    ) -> None:
        """Send a request about states of partitions of the topic."""
        by_where = {TopicIdPartition(self.topic_id, row.partition): row for row in rows}
        await self.ask(label, request_of(kind, group, by_where), version)

    async def ask(self, label: str, request: Any, version: int | None = None) -> None:
        if version is None:
            version = request.SPEC.versions.last
        response = await self.request(request, version)
        for topic in response.results:
            topic.partitions.sort(key=lambda row: row.partition)
        self.answers.append((label, repr(response).replace(repr(self.topic_id), "<id>")))

    async def records(self) -> list[str]:
        """Return the records of states, and check that we would write their bytes."""
        row = plain.FetchPartition(0, partition_max_bytes=1 << 20)
        topic = plain.FetchTopic(STATES, partitions=[row])
        response = await self.request(plain.FetchRequest(max_wait_ms=100, topics=[topic]), 11)
        found: list[str] = []
        for record in decode_records(response.responses[0].partitions[0].records):
            decoded = decode_record(record.key or b"", record.value)
            assert decoded is not None
            assert encode_record(decoded) == (record.key, record.value)
            if decoded.key.where.topic_id != self.topic_id:
                continue
            if isinstance(decoded, ShareSnapshot) and decoded.state is not None:
                assert decoded.state.created_ms == decoded.state.written_ms > 0
                decoded = replace(decoded, state=replace(decoded.state, created_ms=0, written_ms=0))
            found.append(repr(decoded).replace(repr(self.topic_id), "<id>"))
        return found


INITIALIZE, READ, WRITE, DELETE, SUMMARY = (
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    WriteShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)


def write(
    state_epoch: int, leader_epoch: int, start: int, *batches: tuple[int, ...]
) -> WritePartition:
    rows = [StateBatchRow(*batch) for batch in batches]
    return WritePartition(0, state_epoch, leader_epoch, start, 5, rows)


async def finding(talk: Conversation) -> None:
    for key in (talk.key(), "a:b:c", "a:b", "", " :x:0", talk.key() + "x"):
        found = await talk.find(key)
        talk.answers.append((f"key {key}", str(found.coordinators[0].error_code)))


async def refusals(talk: Conversation) -> None:
    await talk.state("read before initialize", READ, ReadPartition(0, 0), ReadPartition(1, 0))
    await talk.state("write before initialize", WRITE, write(0, 0, 0))
    await talk.state("delete before initialize", DELETE, DeletePartition(0))
    await talk.state("summary before initialize", SUMMARY, ReadPartition(0, 0))
    await talk.state("the older summary", SUMMARY, ReadPartition(0, 0), version=0)
    for kind, row in (
        (INITIALIZE, InitializePartition),
        (READ, ReadPartition),
        (WRITE, WritePartition),
        (DELETE, DeletePartition),
        (SUMMARY, ReadPartition),
    ):
        await talk.state("negative", kind, row(-1))
        await talk.state("beyond the topic", kind, row(9))
        await talk.state("no group", kind, row(0), group="")
        await talk.ask("no topics", kind("group", []))
        unknown = {TopicIdPartition(UNKNOWN, 0): row(0)}
        await talk.ask("unknown topic", request_of(kind, "group", unknown))


async def a_life(talk: Conversation) -> None:
    await talk.state("initialize", INITIALIZE, InitializePartition(0, 1, -1))
    await talk.state("read without a leader", READ, ReadPartition(0, -1))
    await talk.state("read as the leader", READ, ReadPartition(0, 4))
    await talk.state("read again", READ, ReadPartition(0, 4))
    await talk.state("read as an older leader", READ, ReadPartition(0, 3))
    await talk.state("write as an older leader", WRITE, write(1, 3, 0))
    await talk.state("write in an older epoch", WRITE, write(0, 4, 0))
    await talk.state("write", WRITE, write(1, 4, 10, (10, 19, 0, 1), (20, 29, 2, 1)))
    await talk.state("write over it", WRITE, write(1, 4, 10, (12, 24, 2, 2)))
    await talk.state(
        "write below the start", WRITE, write(-1, -1, 14, (8, 15, 4, 3), (40, 40, 0, 1))
    )
    await talk.state("a snapshot is due", WRITE, write(1, 4, -1, (12, 24, 0, 2), (41, 44, 0, 1)))
    await talk.state("and another change", WRITE, write(1, 4, -1, (14, 16, 2, 4)), version=0)
    await talk.state("read it all", READ, ReadPartition(0, 4))
    await talk.state("summary", SUMMARY, ReadPartition(0, -1), ReadPartition(1, -1))
    await talk.state("a later leader", READ, ReadPartition(0, 7))
    await talk.state("initialize in an older epoch", INITIALIZE, InitializePartition(0, 0, 5))
    await talk.state("initialize again", INITIALIZE, InitializePartition(0, 2, 5))
    await talk.state("read from there", READ, ReadPartition(0, 7))
    await talk.state("delete", DELETE, DeletePartition(0))
    await talk.state("it is gone", READ, ReadPartition(0, 7))
    await talk.state("begin again", INITIALIZE, InitializePartition(0, 0, 3))
    await talk.state("summary of that", SUMMARY, ReadPartition(0, -1))


async def many_batches(talk: Conversation) -> None:
    """The combination of batches, in every constellation of two."""
    await talk.state("initialize", INITIALIZE, InitializePartition(1, 0, 0))
    second = [(first, last) for first in (0, 2, 4) for last in (2, 4, 6) if last >= first]
    for number, (first, last) in enumerate(second):
        for state, count in ((0, 1), (2, 1), (0, 2)):
            rows = [StateBatchRow(2, 4, 0, 1), StateBatchRow(first, last, state, count)]
            rows.append(StateBatchRow(last + 1, last + 3, 2, 1))
            await talk.state(f"{number}", WRITE, WritePartition(1, 0, 0, 0, 0, rows))
            await talk.state(f"{number}", READ, ReadPartition(1, 0))


async def states(address: str) -> tuple[list[tuple[str, str]], list[str]]:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        talk = Conversation(channel)
        await talk.begin()
        for scene in (finding, refusals, a_life, many_batches):
            await scene(talk)
        return talk.answers, await talk.records()
    finally:
        channel.close()


@pytest.mark.mission("SHR-10")
def test_states_and_their_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    answers, records = asyncio.run(states(theirs))
    assert len(records) == 36  # of the writes that are not refused
    our_answers, our_records = asyncio.run(states(ours))
    for (label, expected), (_, answer) in zip(answers, our_answers, strict=True):
        assert answer == expected, label
    for expected, record in zip(records, our_records, strict=True):
        assert record == expected


# -- fetching and acknowledging

SIZES = (3, 5, 2, 4)  # of the record batches in partition 0
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LIMITED: dict[str, Any] = {"share_acquire_mode": 1}
# At the first fetch of a share-partition, a broker reads its state before it has records.
PATIENT: dict[str, Any] = {"max_wait_ms": TIMEOUT_MS // 2}


class Consumption(Conversation):
    """The share sessions of a test."""

    group = "shared"

    async def prepare(self) -> None:
        """Produce records, and begin the state of the share-partition at offset 0."""
        await self.begin()
        for size in SIZES:
            records = [(1, None, b"x" * 10, ()) for _ in range(size)]
            partition = PartitionProduceData(0, build_batch(records))
            request = ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(TOPIC, partition_data=[partition])],
            )
            (topic,) = (await self.request(request, 9)).responses
            assert not topic.partition_responses[0].error_code
        where = TopicIdPartition(self.topic_id, 0)
        start = {where: InitializePartition(0, 0, 0)}
        await self.request(request_of(INITIALIZE, self.group, start), 0)

    async def fetch(
        self,
        label: str,
        member: str,
        epoch: int,
        *acknowledged: tuple[int, int, list[int]],
        version: int = 2,
        partitions: tuple[int, ...] = (0,),
        forgotten: tuple[int, ...] = (),
        **facts: Any,
    ) -> None:
        """Send ShareFetch; ``acknowledged`` are first and last offset, and the types."""
        rows = [FetchPartition(index) for index in partitions]
        for row in acknowledged:
            rows[0].acknowledgement_batches.append(AcknowledgementBatch(*row))
        defaults = {"max_wait_ms": 100, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        gone = [ForgottenTopic(self.topic_id, list(forgotten))] if forgotten else []
        request = ShareFetchRequest(
            self.group,
            member,
            epoch,
            topics=[FetchTopic(self.topic_id, rows)] if rows else [],
            forgotten_topics_data=gone,
            **{**defaults, **facts},
        )
        self.answer(label, await self.request(request, version))

    async def acknowledge(
        self,
        label: str,
        member: str,
        epoch: int,
        *acknowledged: tuple[int, int, list[int]],
        version: int = 2,
        partition: int = 0,
        renews: bool = False,
    ) -> None:
        batches = [AcknowledgementBatch(*row) for row in acknowledged]
        rows = [AcknowledgePartition(partition, batches)] if acknowledged else []
        topics = [AcknowledgeTopic(self.topic_id, rows)] if rows else []
        request = ShareAcknowledgeRequest(
            self.group, member, epoch, is_renew_ack=renews, topics=topics
        )
        self.answer(label, await self.request(request, version))

    def answer(self, label: str, response: Any) -> None:
        for topic in response.responses:
            topic.partitions.sort(key=lambda row: row.partition_index)
            for row in topic.partitions:
                if hasattr(row, "records"):
                    batches = iterate_batches(row.records)
                    row.records = [(batch.base_offset, batch.last_offset) for batch in batches]
        self.answers.append((label, repr(response).replace(repr(self.topic_id), "<id>")))


async def sessions(talk: Consumption) -> None:
    await talk.fetch("no session", "m1", 3)
    await talk.fetch("closes no session", "m1", -1)
    await talk.acknowledge("acknowledges without a session", "m1", 1, (0, 0, [ACCEPT]))
    await talk.acknowledge("cannot open a session", "m1", 0, (0, 0, [ACCEPT]))
    await talk.fetch("acknowledges at once", "m1", 0, (0, 0, [ACCEPT]))
    await talk.fetch("no member id", "", 0)
    await talk.fetch("a long member id", "m" * 37, 0)
    await talk.fetch("an unknown partition", "m1", 0, partitions=(9,))
    await talk.fetch("no records wanted", "m1", 0, max_records=0)
    await talk.fetch("an old epoch", "m1", 7, partitions=())
    await talk.fetch("forgets its partition", "m1", 1, partitions=(), forgotten=(0,))
    await talk.fetch("closes", "m1", -1, partitions=())
    await talk.fetch("is closed", "m1", 2, partitions=())


async def acquiring(talk: Consumption) -> None:
    await talk.fetch("a share-partition that has no state", "m1", 0, partitions=(1,), **PATIENT)
    await talk.fetch("a whole batch for one record", "m1", 0, max_records=1, **PATIENT)
    await talk.fetch("in batches of two", "m2", 0, batch_size=2, max_records=7)
    await talk.fetch("one record alone", "m3", 0, max_records=1, **LIMITED)
    await talk.fetch("two others", "m3", 1, max_records=2, **LIMITED)
    await talk.fetch("nothing is left", "m3", 2, max_records=9, version=1)


async def acknowledging(talk: Consumption) -> None:
    await talk.acknowledge("some", "m1", 1, (0, 1, [ACCEPT]))
    await talk.acknowledge("again", "m1", 2, (0, 1, [ACCEPT]))
    await talk.acknowledge("of another", "m1", 3, (3, 4, [ACCEPT]))
    await talk.acknowledge("beyond", "m1", 4, (2, 90, [ACCEPT]))
    await talk.acknowledge("far beyond", "m1", 5, (80, 90, [ACCEPT]))
    await talk.acknowledge("types that are too few", "m1", 6, (0, 2, [1, 1]))
    await talk.acknowledge("an unknown type", "m1", 7, (2, 2, [5]))
    await talk.acknowledge("no type", "m1", 8, (2, 2, []))
    await talk.acknowledge("backwards", "m1", 9, (2, 1, [ACCEPT]))
    await talk.acknowledge("renews and does not say so", "m1", 10, (2, 2, [RENEW]))
    await talk.acknowledge("renews", "m1", 11, (2, 2, [RENEW]), renews=True)
    await talk.acknowledge("renews in an old version", "m1", 12, (2, 2, [RENEW]), version=1)
    await talk.acknowledge("another partition", "m1", 13, (0, 0, [ACCEPT]), partition=1)
    await talk.acknowledge("nothing", "m1", 14)
    await talk.acknowledge("an old epoch", "m1", 3)
    await talk.fetch("with a fetch, and gets nothing", "m2", 1, (3, 7, [1, 2, 3, 2, 1]))
    await talk.fetch("what was released", "m1", 15, (2, 2, [RELEASE]), partitions=(0,))
    await talk.fetch("what was released again", "m3", 3, partitions=())
    await talk.fetch("renews with a fetch", "m3", 4, (10, 10, [RENEW]), is_renew_ack=True)
    renewing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
    renewing["is_renew_ack"] = True
    await talk.fetch("renews alone", "m3", 4, (10, 10, [RENEW]), **renewing)


async def redelivery(talk: Consumption) -> None:
    """Records are released again and again, up to the limit of deliveries."""
    await talk.fetch("leaves, and releases all", "m3", -1, partitions=())
    for turn in range(6):
        member = f"n{turn}"
        await talk.fetch(f"turn {turn}", member, 0)
        await talk.fetch(f"turn {turn} goes on", member, 1, partitions=())
        await talk.acknowledge(f"turn {turn} leaves", member, -1)
    await talk.fetch("the rest", "m1", 16, partitions=())
    await talk.fetch("m2 leaves", "m2", -1, partitions=())
    await talk.fetch("the rest of m2", "m1", 17, partitions=())


async def consumption(address: str) -> tuple[list[tuple[str, str]], list[str]]:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        talk = Consumption(channel)
        await talk.prepare()
        for scene in (sessions, acquiring, acknowledging, redelivery):
            await scene(talk)
        records = [text for text in await talk.records() if "shared" in text]
        return talk.answers, records
    finally:
        channel.close()


@pytest.mark.mission("SHR-11")
def test_shared_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    answers, records = asyncio.run(consumption(theirs))
    assert records
    our_answers, our_records = asyncio.run(consumption(ours))
    for (label, expected), (_, answer) in zip(answers, our_answers, strict=True):
        assert answer == expected, label
    for expected, record in zip(records, our_records, strict=True):
        assert record == expected


# -- transactions


class Isolation(Consumption):
    """A producer of transactions into partition 1, and groups with and without isolation."""

    async def prepare(self) -> None:
        await self.begin()
        for group, isolation in (("open", "read_uncommitted"), ("careful", "read_committed")):
            key = IncrementalAlterableConfig("share.isolation.level", AlterOperation.SET, isolation)
            resource = IncrementalAlterConfigsResource(ResourceType.GROUP, group, [key])
            altered = await self.request(IncrementalAlterConfigsRequest([resource]), 1)
            assert not altered.responses[0].error_code
            start = {TopicIdPartition(self.topic_id, 1): InitializePartition(1, 0, 0)}
            await self.request(request_of(INITIALIZE, group, start), 0)
        for turn, committed in enumerate((True, False, None, False, True)):
            producer = await self.producer(f"producer {turn}")
            for sequence in (0, 2):
                await self.produce(*producer, sequence)
            if committed is not None:
                request = EndTxnRequest(*producer, committed)
                assert not (await self.request(request, 5)).error_code
                await self.until_completed(producer[0])

    async def until_completed(self, name: str) -> None:
        """Wait until the marker of a transaction is written, and the coordinator knows it."""
        for _ in range(200):
            response = await self.request(DescribeTransactionsRequest([name]), 0)
            if response.transaction_states[0].transaction_state.startswith("Complete"):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(response)

    async def producer(self, name: str) -> tuple[str, int, int]:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])  # creates the topic
        for _ in range(200):
            await self.request(find, 6)
            response = await self.request(InitProducerIdRequest(name, 60_000), 5)
            if not response.error_code:
                return name, response.producer_id, response.producer_epoch
            await asyncio.sleep(0.05)
        raise AssertionError(response)

    async def produce(self, name: str, producer_id: int, epoch: int, sequence: int) -> None:
        batch = build_batch(
            [(1, None, b"x", ())] * 2,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(1, batch)])
        (topic,) = (await self.request(ProduceRequest(name, -1, TIMEOUT_MS, [data]), 12)).responses
        assert not topic.partition_responses[0].error_code

    async def consume(self, group: str) -> None:
        self.group = group
        await self.fetch(f"{group}: a few", "m1", 0, partitions=(1,), max_records=1, **PATIENT)
        await self.fetch(f"{group}: one", "m1", 1, partitions=(), max_records=1, **LIMITED)
        await self.fetch(f"{group}: more", "m1", 2, partitions=(), batch_size=3)
        await self.fetch(f"{group}: no more", "m1", 3, partitions=())


async def isolation(address: str) -> list[tuple[str, str]]:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        talk = Isolation(channel)
        await talk.prepare()
        await talk.consume("open")
        await talk.consume("careful")
        return talk.answers
    finally:
        channel.close()


@pytest.mark.mission("SHR-11")
def test_isolated_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    answers = asyncio.run(isolation(theirs))
    for (label, expected), (_, answer) in zip(answers, asyncio.run(isolation(ours)), strict=True):
        assert answer == expected, label
