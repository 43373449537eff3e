"""Official Kafka 4 and we give the same answers in transactions of version 2 (KIP-890), and write
the same records and markers."""

from __future__ import annotations

import asyncio
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest

from minikafka.aio import Admin, Consumer, Producer
from minikafka.core.client.admin.transactions import TransactionDescription
from minikafka.core.transaction.records import decode_record, encode_record
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.records.batch import CONTROL_FLAG, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import control_record, decode_end_txn_marker
from minikafka.protocol.records.record import decode_records
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TIMEOUT_MS = 20_000
TOPIC = "words"
TRANSACTIONS = "__transaction_state"
GROUP = "committers"


class Conversation:
    """The requests of a test to one broker, and what it has answered: texts, in which producer ids
    are numbered in the order of their first appearance. ``id`` and ``epoch`` are those of the
    producer of ``name``, the current transactional id."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = ""
        self.id, self.epoch = -1, -1
        self.topic_id = ZERO_UUID
        self._transactional_ids: set[str | None] = set()
        self.producer_ids: dict[int, str] = {-1: "no id"}
        self.answers: list[tuple[str, str]] = []

    async def begin(self) -> None:
        """Create the topic, and wait until the coordinator is there."""
        topics = [CreatableTopic(TOPIC, 2, 1)]
        await self.request(CreateTopicsRequest(topics, timeout_ms=TIMEOUT_MS), 5)
        while self.topic_id == ZERO_UUID:
            wanted = [MetadataRequestTopic(name=TOPIC)]
            response = await self.request(MetadataRequest(wanted), 12)
            self.topic_id = response.topics[0].topic_id
        for kind, name in ((1, "any"), (0, GROUP)):  # makes the internal topics
            for _ in range(200):
                found = await self.request(FindCoordinatorRequest(name, kind), 3)
                if not found.error_code:
                    break
                await asyncio.sleep(0.1)
        for _ in range(200):
            if not (await self.request(InitProducerIdRequest("any", 60_000), 5)).error_code:
                return
            await asyncio.sleep(0.1)

    async def request(self, message: Any, version: int) -> Any:
        self._transactional_ids.add(getattr(message, "transactional_id", None))
        return await self._channel.request(message, version, TIMEOUT_MS)

    async def ask(self, label: str, message: Any, version: int) -> Any:
        response = await self.request(message, version)
        self.note(f"{label} ({version})", response)
        return response

    def note(self, label: str, value: Any) -> None:
        _sort_partitions(value)
        self.answers.append((f"{self.name}: {label}", self._named(value)))

    def named(self, producer_id: int) -> str:
        return self.producer_ids.setdefault(producer_id, f"id {len(self.producer_ids)}")

    def _named(self, value: Any) -> str:
        if getattr(value, "producer_id", None) is not None:
            value.producer_id = self.named(value.producer_id)
        return repr(value).replace(repr(self.topic_id), "<topic id>")

    # -- requests of a producer

    async def init(
        self, label: str, expected: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
    ) -> None:
        """Send InitProducerId again while the transaction before is being completed."""
        request = InitProducerIdRequest(self.name, timeout_ms, *expected)
        response = await self.request(request, 5)
        while response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(0.05)
            response = await self.request(request, 5)
        if not response.error_code:
            self.id, self.epoch = response.producer_id, response.producer_epoch
        self.note(label, response)

    async def produce(
        self,
        label: str,
        *partitions: int,
        version: int = 12,
        sequence: int = 0,
        epoch: int | None = None,
        topic_id: UUID | None = None,
        transactional: bool = True,
    ) -> None:
        batch = build_batch(
            [(1_000, None, label.encode(), ())],
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        topic = TopicProduceData(
            TOPIC, topic_id or self.topic_id, [PartitionProduceData(p, batch) for p in partitions]
        )
        response = await self.request(ProduceRequest(self.name, -1, 10_000, [topic]), version)
        for each in response.responses:
            for row in each.partition_responses:
                row.error_message = None
                if row.error_code == ErrorCode.INVALID_PRODUCER_EPOCH:
                    row.log_start_offset = -1  # Kafka refuses some before it looks at the log
        self.note(f"{label} ({version})", response)

    async def commit(self, label: str, version: int = 5, epoch: int | None = None) -> None:
        """Send TxnOffsetCommit again while the transaction before is being completed."""
        topic = TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 7)])
        producer = self.id, self.epoch if epoch is None else epoch
        request = TxnOffsetCommitRequest(self.name, GROUP, *producer, topics=[topic])
        await self.ask(label, request, version)

    async def add(self, label: str, *partitions: int, version: int = 3) -> None:
        topics = [AddPartitionsToTxnTopic(TOPIC, list(partitions))]
        request = AddPartitionsToTxnRequest([], self.name, self.id, self.epoch, topics)
        await self.ask(label, request, version)

    async def add_as_broker(
        self, label: str, *partitions: int, verify: bool, epoch: int | None = None
    ) -> None:
        topics = [AddPartitionsToTxnTopic(TOPIC, list(partitions))]
        producer = self.id, self.epoch if epoch is None else epoch
        asked = AddPartitionsToTxnTransaction(self.name, *producer, verify, topics)
        for version in (4, 5):
            await self.ask(label, AddPartitionsToTxnRequest([asked]), version)

    async def end(
        self,
        label: str,
        committed: bool,
        version: int = 5,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Send EndTxn, continue with the producer id and epoch of the response, and wait until the
        transaction is completed."""
        request = EndTxnRequest(self.name, *(producer or (self.id, self.epoch)), committed)
        response = await self.request(request, version)
        if not response.error_code and version >= 5:
            self.id, self.epoch = response.producer_id, response.producer_epoch
        self.note(f"{label} ({version})", response)
        await self.completed()

    async def completed(self) -> None:
        for _ in range(200):
            if not (await self.described()).transaction_state.startswith("Prepare"):
                return
            await asyncio.sleep(0.02)

    async def described(self) -> Any:
        response = await self.request(DescribeTransactionsRequest([self.name]), 0)
        return response.transaction_states[0]

    async def describe(self, label: str) -> None:
        """Note the state of the transaction, and the producer's state in partition 0."""
        state = await self.described()
        state.transaction_start_time_ms = min(1, state.transaction_start_time_ms)
        self.note(f"{label}: transaction", state)
        topics = [TopicRequest(TOPIC, [0])]
        response = await self.request(DescribeProducersRequest(topics), 0)
        for row in response.topics[0].partitions[0].active_producers:
            if row.producer_id == self.id:
                row.last_timestamp = min(1, row.last_timestamp)
                self.note(f"{label}: producer", row)

    async def mark(self, label: str, epoch: int, version: int, committed: bool = True) -> None:
        topics = [WritableTxnMarkerTopic(TOPIC, [0])]
        marker = WritableTxnMarker(self.id, epoch, committed, topics, 0, version)
        response = await self.request(WriteTxnMarkersRequest([marker]), 2)
        self.note(label, [row.topics for row in response.markers])

    # -- what the broker has written

    async def fetched(self, topic: str, partition: int) -> bytes:
        wanted = FetchTopic(
            topic, partitions=[FetchPartition(partition, partition_max_bytes=1 << 20)]
        )
        response = await self.request(FetchRequest(max_wait_ms=100, topics=[wanted]), 11)
        return bytes(response.responses[0].partitions[0].records)

    async def records(self) -> list[str]:
        """Return the records of transactions, and check that we would write their bytes."""
        found = []
        for record in decode_records(await self.fetched(TRANSACTIONS, 0)):
            decoded = decode_record(record.key or b"", record.value)
            assert decoded is not None
            assert encode_record(decoded, 2) == (record.key, record.value)
            if decoded.transactional_id not in self._transactional_ids:
                continue
            facts = decoded.facts
            assert facts is not None
            found.append(
                f"{decoded.transactional_id}: {self.named(facts.producer_id)} "
                f"epoch={facts.producer_epoch} {facts.state.title} {sorted(facts.partitions)} "
                f"started={facts.start_ms > 0} version={facts.client_version} "
                f"timeout={facts.timeout_ms}"
            )
        return found

    async def batches(self) -> list[str]:
        """Return what is said of the batches of both partitions, with their markers."""
        found = []
        for partition in (0, 1):
            for batch in parse_batches(await self.fetched(TOPIC, partition)):
                record = control_record(batch) if batch.attributes & CONTROL_FLAG else None
                marker = None if record is None else decode_end_txn_marker(record)
                found.append(
                    f"{partition}: {batch.base_offset} {self.named(batch.producer_id)} "
                    f"epoch={batch.producer_epoch} sequence={batch.base_sequence} "
                    f"{batch.attributes:x} {None if marker is None else marker.type.name}"
                )
        return found


def _sort_partitions(value: Any) -> None:
    """Sort the rows of partitions: Kafka's are in the order of a hash map."""
    if isinstance(value, list):
        for each in value:
            _sort_partitions(each)
        if value and hasattr(value[0], "partition_index"):
            value.sort(key=lambda row: row.partition_index)
        elif value and isinstance(value[0], int):
            value.sort()
        elif value and hasattr(value[0], "index"):
            value.sort(key=lambda row: row.index)
    elif is_dataclass(value):
        for field in fields(value):
            _sort_partitions(getattr(value, field.name))


async def offered(talk: Conversation) -> None:
    """Note the versions and the feature that producers choose by."""
    response = await talk.request(ApiVersionsRequest("client", "1"), 4)
    rows = {row.api_key: row.max_version for row in response.api_keys}
    talk.note("versions", {key: rows[key] for key in (0, 22, 24, 25, 26, 27, 28)})
    levels = {row.name: row.max_version_level for row in response.finalized_features}
    talk.note("level", levels["transaction.version"])
    supported = {
        row.name: (row.min_version, row.max_version) for row in response.supported_features
    }
    talk.note("levels", supported["transaction.version"])


async def ends(talk: Conversation) -> None:
    talk.name = "ends"
    await talk.init("begins")
    await talk.end("nothing is committed", True)
    await talk.end("nothing is aborted", False)
    await talk.end("again nothing is aborted", False)
    await talk.end("the abort is repeated", False, producer=(talk.id, talk.epoch - 1))
    await talk.end("the abort is repeated as a commit", True, producer=(talk.id, talk.epoch - 1))
    await talk.end("nothing is committed after an abort", True)
    await talk.produce("first", 0, 1)
    await talk.describe("is open")
    await talk.produce("second", 0, sequence=1)
    await talk.produce("second, again", 0, sequence=1)
    await talk.end("commits", True)
    await talk.describe("is committed")
    await talk.end("the commit is repeated", True, producer=(talk.id, talk.epoch - 1))
    await talk.end("the commit is repeated as abort", False, producer=(talk.id, talk.epoch - 1))
    await talk.end("an older epoch", True, producer=(talk.id, talk.epoch - 2))
    await talk.end("a later epoch", True, producer=(talk.id, talk.epoch + 1))
    await talk.end("another id", True, producer=(talk.id + 1_000, talk.epoch))
    await talk.end("commits again, in the next epoch", True)
    await talk.end("aborts after a commit", False)
    await talk.produce("in the former epoch", 0, epoch=talk.epoch - 1)
    await talk.produce("in a later epoch", 0, epoch=talk.epoch + 1)
    await talk.produce("aborted", 0)
    await talk.end("in the former epoch", False, producer=(talk.id, talk.epoch - 1))
    await talk.end("aborts", False)
    await talk.end("in an old version", False, version=4)
    await talk.end("in an old version, otherwise", True, version=4)
    await talk.end("in the former epoch and an old version", False, 4, (talk.id, talk.epoch - 1))


async def sequences(talk: Conversation) -> None:
    talk.name = "sequences"
    await talk.init("begins")
    await talk.produce("not from 0", 0, sequence=3)
    await talk.produce("from 0", 0)
    await talk.produce("a gap", 0, sequence=5)
    await talk.produce("not transactional", 0, sequence=1, transactional=False)
    await talk.produce("by id", 0, version=13, sequence=1)
    await talk.produce("an unknown id", 0, version=13, topic_id=UUID(int=77))
    await talk.produce("an unknown partition", 9, version=13)
    await talk.produce("an unknown partition by name", 9)
    await talk.end("commits", True)
    await talk.produce("not from 0 in the next", 0, sequence=2)
    await talk.produce("from 0 in the next", 0)
    await talk.end("commits the next", True)


async def offsets(talk: Conversation) -> None:
    talk.name = "offsets"
    await talk.init("begins")
    await talk.commit("commits offsets")
    await talk.describe("has offsets")
    await talk.commit("in a later epoch", epoch=talk.epoch + 1)
    await talk.commit("not verified in another group's partition", version=4)
    await talk.end("commits", True)
    await talk.commit("in the former epoch", epoch=talk.epoch - 1)
    await talk.commit("not added", version=4)
    await talk.commit("not added in an old version", version=3)
    await talk.commit("offsets of the next")
    await talk.end("aborts", False)


async def both_versions(talk: Conversation) -> None:
    """A client of the original transactions, and one that changes its version in between."""
    talk.name = "both"
    await talk.init("begins")
    await talk.produce("not added", 0, version=11)
    await talk.produce("not added, and an old version", 0, version=10)
    await talk.add("adds", 0)
    await talk.add("adds again", 0)
    await talk.add("adds an unknown one", 0, 9)
    await talk.produce("is added", 0, version=11)
    await talk.end("commits in version 4", True, version=4)
    await talk.describe("is committed")
    await talk.end("commits again", True, version=4)
    await talk.end("now aborts", False, version=4)
    offsets = AddOffsetsToTxnRequest(talk.name, talk.id, talk.epoch, GROUP)
    await talk.ask("adds a group", offsets, 4)
    await talk.commit("is added", version=4)
    await talk.end("commits in version 5", True)
    await talk.produce("of version 2", 1)
    await talk.add_as_broker("is verified", 1, verify=True)
    await talk.add_as_broker("is not verified", 0, 1, verify=True)
    await talk.add_as_broker("is added", 0, verify=False)
    await talk.add_as_broker("is fenced", 0, verify=False, epoch=talk.epoch - 1)
    await talk.add_as_broker("is not verified in a later epoch", 0, verify=True, epoch=99)
    await talk.end("ends in version 4", True, version=4)
    await talk.end("ends again in version 5", True)
    await talk.end("aborts in version 5", False)


async def fences(talk: Conversation) -> None:
    talk.name = "fences"
    await talk.init("begins")
    await talk.produce("zombie", 0)
    zombie = talk.id, talk.epoch
    await talk.init("the next producer")
    await talk.describe("is aborted")
    await talk.end("the zombie commits", True, producer=zombie)
    await talk.produce("the zombie goes on", 0, epoch=zombie[1], sequence=1)
    await talk.init("the zombie wants the next epoch", zombie)
    await talk.produce("continues", 0)
    before = talk.id, talk.epoch
    await talk.init("goes on after an error", before)
    await talk.init("asks again", before)
    await talk.end("nothing is there to abort", False)


async def time_outs(talk: Conversation) -> None:
    talk.name = "slow"
    await talk.init("begins", timeout_ms=300)
    await talk.produce("late", 0)
    slow = talk.id, talk.epoch
    for _ in range(200):
        if (await talk.described()).transaction_state == "CompleteAbort":
            break
        await asyncio.sleep(0.05)
    await talk.describe("is aborted")
    await talk.produce("is late", 0, sequence=1)
    await talk.end("commits late", True, producer=slow)
    await talk.end("aborts late", False, producer=slow)
    await talk.produce("goes on", 0)
    await talk.end("commits", True)


async def markers(talk: Conversation) -> None:
    """Markers that do not come from the coordinator."""
    talk.name = "markers"
    await talk.init("begins")
    await talk.end("begins the next epoch", False)
    await talk.produce("open", 0)
    await talk.mark("in the open epoch", talk.epoch, 2)
    await talk.mark("in the former epoch", talk.epoch - 1, 0)
    await talk.mark("in the next epoch", talk.epoch + 1, 2)
    await talk.mark("a second time", talk.epoch + 1, 2)
    await talk.mark("in the open epoch again", talk.epoch, 2)
    await talk.describe("is marked")
    await talk.produce("is marked", 0, sequence=1)
    await talk.end("commits", True)
    await talk.produce("open again", 0)
    await talk.mark("of the original version", talk.epoch, 0)
    await talk.end("aborts", False)


SCENES = (offered, ends, sequences, offsets, both_versions, fences, time_outs, markers)


async def converse(address: str) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        talk = Conversation(channel)
        await talk.begin()
        for scene in SCENES:
            await scene(talk)
        return talk.answers, await talk.records(), await talk.batches()
    finally:
        channel.close()


@pytest.mark.mission("TV2-1")
def test_answers_records_and_markers_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    answers, records, batches = asyncio.run(converse(theirs))
    our_answers, our_records, our_batches = asyncio.run(converse(ours))
    for (label, expected), (_, answer) in zip(answers, our_answers, strict=True):
        assert answer == expected, label
    assert our_records == records
    assert our_batches == batches


async def use(address: str) -> tuple[list[bytes | None], int]:
    """Run transactions of our producer. Return what a reader of committed records sees, and the
    last epoch."""
    topic, position = "copies", {TopicPartition("copies", 0): 1}
    async with Admin(address) as admin:
        await admin.create_topic(topic, 1, 1)
        await admin.wait_for_topic(topic, 1)
    async with Producer(address, transactional_id="ours") as producer:
        await producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            await producer.send(topic, b"%d" % number)
            await producer.send_offsets_to_transaction(position, "copiers")
            await (producer.abort_transaction() if number == 2 else producer.commit_transaction())
    async with Admin(address) as admin:
        found = (await admin.describe_transactions(["ours"]))["ours"]
    assert isinstance(found, TransactionDescription)
    async with Consumer(
        address, topics=[topic], auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        return [record.value async for record in consumer.read_to()], found.producer_epoch


@pytest.mark.mission("TV2-10")
@pytest.mark.parametrize("broker", ["theirs", "ours"])
def test_our_producer_has_an_epoch_for_each_transaction_at_both(
    broker: str, request: pytest.FixtureRequest
) -> None:
    values, epoch = asyncio.run(use(request.getfixturevalue(broker)))
    assert (values, epoch) == ([b"0", b"1", b"3", b"4"], 5)
