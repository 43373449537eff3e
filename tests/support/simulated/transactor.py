"""A transactional producer of a simulated cluster, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from minikafka.client.coordinators import GROUP, TRANSACTION, find_coordinator
from minikafka.client.session import Client
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
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
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.schema import Message
from minikafka.simulator.cluster import SimCluster

CLIENTS_VERSION = 3  # of AddPartitionsToTxn; later ones are for brokers
PATIENCE_MS = 120_000
RETRY_MS = 200

_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Fenced(Exception):
    """There is another producer with this transactional id, or its transaction took too long."""


class SimTransactor(Client):
    """Tries everything again that may be tried again. Raises Fenced, and KafkaError for what makes
    the transaction impossible."""

    def __init__(self, cluster: SimCluster, name: str, timeout_ms: int) -> None:
        super().__init__(cluster.client_host.world, cluster.client_config)
        self.name = name
        self.group = f"group-of-{name}"
        self._clock = cluster.client_host.world.clock
        self._timeout_ms = timeout_ms
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._coordinators: dict[int, int] = {}

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)

    async def close(self) -> None:
        await self.session.close()

    # -- requests

    async def begin(self) -> None:
        """The next epoch."""
        answer = await self._ask(
            TRANSACTION,
            InitProducerIdRequest(self.name, self._timeout_ms, self._producer_id, self._epoch),
            _top_error,
        )
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self._added.clear()

    async def send(self, where: TopicPartition, value: bytes) -> None:
        """One record, in a batch of its own."""
        if where not in self._added:
            await self._add(where)
        sequence = self._sequences.get(where, 0)
        batch = build_batch(
            [(self._clock.wall_ms(), None, value, ())],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(where.topic, [PartitionProduceData(where.partition, batch)])
        request = ProduceRequest(self.name, -1, self.session.config.request_timeout_ms, [data])

        async def attempt() -> None:
            leader = await self.session.metadata.leader(where, PATIENCE_MS)
            answer = await self.session.connections.request(leader, request)
            _raise(answer.responses[0].partition_responses[0].error_code)

        await self._retrying(attempt)
        self._sequences[where] = sequence + 1

    async def _add(self, where: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(where.topic, [where.partition])],
        )

        def error(answer: Any) -> int:
            code: int = (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
            return code

        await self._ask(TRANSACTION, request, error, at_most=CLIENTS_VERSION)
        self._added.add(where)

    def pretend_added(self, where: TopicPartition) -> None:
        """Send there without the coordinator knowing: what a faulty producer may do."""
        self._added.add(where)

    async def commit_offset(self, where: TopicPartition, offset: int) -> None:
        add = AddOffsetsToTxnRequest(self.name, self._producer_id, self._epoch, self.group)
        await self._ask(TRANSACTION, add, _top_error)
        partition = TxnOffsetCommitRequestPartition(where.partition, offset)
        request = TxnOffsetCommitRequest(
            self.name,
            self.group,
            self._producer_id,
            self._epoch,
            topics=[TxnOffsetCommitRequestTopic(where.topic, [partition])],
        )

        def error(answer: Any) -> int:
            code: int = answer.topics[0].partitions[0].error_code
            return code

        await self._ask(GROUP, request, error, key=self.group)

    async def end(self, committed: bool) -> bool:
        """How it ended: as asked."""
        if self._added or committed:
            request = EndTxnRequest(self.name, self._producer_id, self._epoch, committed)
            await self._ask(TRANSACTION, request, _top_error)
        self._added.clear()
        return committed

    async def give_up(self) -> None:
        """Whatever is open is aborted."""
        self._producer_id, self._epoch = -1, -1
        await self.begin()

    async def committed_offset(self, group: str, where: TopicPartition) -> int:
        topics = [OffsetFetchRequestTopics(where.topic, [where.partition])]
        asked = [OffsetFetchRequestGroup(group, topics=topics)]
        request = OffsetFetchRequest(groups=asked, require_stable=True)

        def error(answer: Any) -> int:
            of_group = answer.groups[0]
            code: int = of_group.error_code or of_group.topics[0].partitions[0].error_code
            return code

        answer = await self._ask(GROUP, request, error, key=group)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    # -- asking

    async def _ask(
        self,
        kind: int,
        message: Message,
        error: Callable[[Any], int],
        at_most: int | None = None,
        key: str | None = None,
    ) -> Any:
        """One answer of a coordinator."""

        async def attempt() -> Any:
            if kind not in self._coordinators:
                deadline_ms = self.session.deadline_ms(PATIENCE_MS)
                self._coordinators[kind] = await find_coordinator(
                    self.session, key or self.name, deadline_ms, kind
                )
            try:
                answer = await self.session.connections.request(
                    self._coordinators[kind], message, at_most=at_most
                )
                _raise(error(answer))
            except KafkaError as refused:
                if refused.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinators.pop(kind, None)
                raise
            return answer

        return await self._retrying(attempt)

    async def _retrying(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        deadline_ms = self._clock.monotonic_ms() + PATIENCE_MS
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code in _FENCED:
                    raise Fenced(error.code.name) from error
                if not error.code.retriable or self._clock.monotonic_ms() > deadline_ms:
                    raise
                self.session.metadata.note_error(error.code)
                await self._clock.sleep(RETRY_MS)


def _top_error(answer: Any) -> int:
    code: int = answer.error_code
    return code


def _raise(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))
