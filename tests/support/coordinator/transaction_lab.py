"""A transaction coordinator alone, with a log in memory, a manual clock, and markers in a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minikafka.core.transaction.records import TransactionStored, decode_record
from minikafka.core.transaction.result import ProducerResult
from minikafka.core.transaction.shard import TransactionConfig
from minikafka.core.transaction.transaction import Transaction, TransactionState
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.records.record import decode_records
from minikafka.server.coordinator.config import TransactionCoordinatorConfig
from minikafka.server.coordinator.transaction_coordinator import TransactionCoordinator
from minikafka.server.coordinator.transaction_markers import MarkerItem, complete_markers
from tests.support.coordinator.group_lab import HandTasks, LabClock, MemoryLog
from tests.support.world.recording_log import RecordingLog

ID = "t"
TIMEOUT_MS = 60_000
P0, P1, P2 = (TopicPartition("flights", index) for index in range(3))


class CountingIds:
    """Allocates producer ids from 100 on."""

    def __init__(self) -> None:
        self.next = 100

    async def generate(self) -> int:
        self.next += 1
        return self.next - 1


class KnownLeaders:
    """Broker 1 leads every partition without an entry in ``leaders``."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {}

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        leader = self.leaders.get(topic_partition, 1)
        return None if leader is None else (leader, 0)


class TransactionLab:
    """One coordinator of one partition. ``sent`` are the markers without a response. ``version`` is
    that of transactions, of the cluster and its producers."""

    def __init__(
        self,
        elect: bool = True,
        clock: LabClock | None = None,
        ids: CountingIds | None = None,
        version: int = 0,
        **config: int,
    ) -> None:
        self.version = version
        self.clock = clock or LabClock()
        self.log = MemoryLog()
        self.events = RecordingLog()
        self.ids = ids or CountingIds()
        self.leaders = KnownLeaders()
        self.sent: list[tuple[int, MarkerItem]] = []
        self.coordinator = TransactionCoordinator(
            self.clock,
            self.log,
            self.leaders,
            self.ids,
            lambda broker, item: self.sent.append((broker, item)),
            TransactionCoordinatorConfig(TransactionConfig(**config)),
            lambda: 1,
            lambda: self.version,
            self.events,
        )
        tasks: Any = HandTasks()
        self.coordinator.start(tasks)
        self.epoch = 0
        if elect:
            self.elect()

    def elect(self) -> None:
        self.epoch += 1
        self.coordinator.runtime.elected(0, self.epoch)

    def resign(self) -> None:
        self.epoch += 1
        self.coordinator.runtime.resigned(0, self.epoch)

    def successor(self) -> TransactionLab:
        """Make another broker the leader of the partition, with the same log and clock. It serves
        when the log is replicated."""
        self.resign()
        other = TransactionLab(elect=False, clock=self.clock, ids=self.ids, version=self.version)
        other.log.batches, other.log.end = self.log.batches, self.log.end
        other.log.high_watermark = self.log.high_watermark
        other.epoch = self.epoch
        other.elect()
        return other

    def transaction(self, transactional_id: str = ID) -> Transaction:
        found = self.coordinator.runtime.require(transactional_id).shard.transactions.get(
            transactional_id
        )
        assert found is not None
        return found

    @property
    def size(self) -> int:
        return sum(context.shard.size for context in self.coordinator.runtime.active())

    @property
    def state(self) -> TransactionState:
        return self.transaction().facts.state

    def records(self) -> list[TransactionStored]:
        """Return all records of the log."""
        found = []
        for record in decode_records(b"".join(self.log.batches)):
            assert record.key is not None
            stored = decode_record(record.key, record.value)
            assert stored is not None
            found.append(stored)
        return found

    # -- requests

    def init(
        self,
        expected: ProducerIdAndEpoch | None = None,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[ProducerResult]:
        """Send InitProducerId. The returned list gets the response."""
        responses: list[ProducerResult] = []
        shard = self.coordinator.runtime.require(transactional_id).shard
        fresh = None
        if shard.needs_producer_id(transactional_id, expected):
            fresh, self.ids.next = self.ids.next, self.ids.next + 1
        runtime = self.coordinator.runtime.require(transactional_id)
        runtime.run(
            shard.init_producer_id(
                transactional_id,
                timeout_ms,
                expected,
                fresh,
                responses.append,
                self.clock.wall_ms(),
            )
        )
        return responses

    def begun(self, transactional_id: str = ID, timeout_ms: int = TIMEOUT_MS) -> ProducerIdAndEpoch:
        """Return a producer that has its id and epoch."""
        (response,) = self.init(None, transactional_id, timeout_ms)
        assert response.error is ErrorCode.NONE, response
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def open(self, *partitions: TopicPartition) -> ProducerIdAndEpoch:
        """Return a producer with an open transaction."""
        producer = self.begun()
        assert self.add(producer, *partitions) == [ErrorCode.NONE]
        return producer

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        transactional_id: str = ID,
        client_version: int | None = None,
    ) -> list[ErrorCode]:
        responses: list[ErrorCode] = []
        version = self.version if client_version is None else client_version
        self.coordinator.add_partitions(
            transactional_id, producer, partitions, version, responses.append
        )
        return responses

    def end(
        self, producer: ProducerIdAndEpoch, committed: bool = True, transactional_id: str = ID
    ) -> list[ErrorCode]:
        """Return a list that gets the error code of the response to EndTxn."""
        responses: list[ErrorCode] = []
        self.coordinator.end(
            transactional_id,
            producer,
            committed,
            self.version,
            lambda result: responses.append(result.error),
        )
        return responses

    def ended(self, producer: ProducerIdAndEpoch, committed: bool = True) -> list[ProducerResult]:
        """Send EndTxn, and return a list that gets the response."""
        responses: list[ProducerResult] = []
        self.coordinator.end(ID, producer, committed, self.version, responses.append)
        return responses

    # -- markers

    def write_markers(
        self, errors: dict[TopicPartition, ErrorCode] | None = None, lost: bool = False
    ) -> list[MarkerItem]:
        """Respond to all sent markers, and return them."""
        items = [item for _, item in self.sent]
        self.sent.clear()
        for item in items:
            response = None if lost else marker_response(item, errors or {})
            complete_markers([item], response)
        return items


def marker_response(
    item: MarkerItem, errors: dict[TopicPartition, ErrorCode]
) -> WriteTxnMarkersResponse:
    def of_topic(name: str, partitions: Iterable[TopicPartition]) -> WritableTxnMarkerTopicResult:
        results = [
            WritableTxnMarkerPartitionResult(tp.partition, errors.get(tp, ErrorCode.NONE))
            for tp in partitions
        ]
        return WritableTxnMarkerTopicResult(name, results)

    names = sorted({tp.topic for tp in item.partitions})
    topics = [of_topic(name, [tp for tp in item.partitions if tp.topic == name]) for name in names]
    return WriteTxnMarkersResponse([WritableTxnMarkerResult(item.markers.producer_id, topics)])
