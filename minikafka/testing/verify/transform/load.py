"""The load of ``consume-transform-produce``: writers of inputs, and a group of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from minikafka.client import Admin, Consumer, ConsumerConfig, ConsumerRecord, Producer
from minikafka.client.session import Coordinators
from minikafka.core.client.calls import CoordinatorKey
from minikafka.kernel.cluster import CoordinatorType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.append.writer import identify
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.transactions.history import (
    ObservedTransaction,
    TransactionHistory,
)
from minikafka.testing.verify.transactions.judge import Anomaly
from minikafka.testing.verify.transactions.load import AGAIN_MS, SETTLE_MS, Transactions
from minikafka.testing.verify.transactions.reader import POLL_MS, end_offsets
from minikafka.testing.verify.transactions.seat import Seat
from minikafka.testing.verify.transform.judge import Transformed, TransformKind, judge_transform
from minikafka.testing.verify.workload import Scene

MOST_RECORDS: Final = 200  # of a transaction
SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_MS: Final = 1_000
MEMBER_VERSION: Final = 3  # of TxnOffsetCommit


class ConsumeTransformProduce(Transactions):
    """See ``Workload``. As many workers as producers of inputs share them as a group."""

    name: ClassVar[str] = "consume-transform-produce"
    promise: ClassVar[str] = "each input has exactly one output, in order"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._inputs = Append(scene, f"{self._topic}-inputs")
        self._group = f"{self._topic}-workers"
        self.topics = [*self._inputs.topics, self._topic]
        self.transformed = Transformed()
        self._consumed = asyncio.Event()

    def _new_seats(self) -> Sequence[Seat]:
        (inputs,) = self._inputs.topics
        return [
            Worker(
                self._scene,
                self._topic,
                self._name_of(number),
                self.history,
                self._consumed,
                Work(inputs, self._group, self.transformed),
            )
            for number in range(self._scene.config.producers)
        ]

    async def prepare(self) -> None:
        """Raises KafkaError UNSUPPORTED_VERSION as well, if the brokers take offsets of members
        that have lost their partitions (KIP-447): they promise nothing here."""
        await self._inputs.prepare()
        await super().prepare()
        async with Admin(self._scene.world, self._scene.client) as admin:
            session = admin.session
            key = CoordinatorKey(CoordinatorType.GROUP, self._group)
            coordinators, deadline_ms = Coordinators(session), session.deadline_ms()
            served = await session.retrying(
                lambda: coordinators.versions(key, deadline_ms), deadline_ms
            )
        if served.get(ApiKey.TXN_OFFSET_COMMIT, (0, 0))[1] < MEMBER_VERSION:
            text = "the brokers do not know the member that commits offsets (KIP-447)"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().load())
            tasks.create_task(self._watch_offsets())
            await self._inputs.load()
            await self._wait_until_consumed()
            self._consumed.set()

    async def conclude(self) -> None:
        await super().conclude()
        await self._inputs.conclude()
        async with Admin(self._scene.world, self._scene.client) as admin:
            await self._note_offsets(admin)

    def judge(self) -> list[Finding]:
        inputs = self._inputs.history
        outputs = self.history.final_committed
        return [
            *self._inputs.judge(),
            *super().judge(),
            *judge_transform(self.transformed, inputs.final, outputs, inputs.ends),
        ]

    def evidence(self, finding: Finding) -> Iterator[str]:
        if isinstance(finding.kind, Anomaly | TransformKind):
            return super().evidence(finding)
        return self._inputs.evidence(finding)

    def counts(self) -> dict[str, int]:
        inputs = self._inputs.counts()
        return {**super().counts(), "inputs_acknowledged": inputs["records_acknowledged"]}

    async def _wait_until_consumed(self) -> None:
        """Wait until the group has committed the ends of the inputs, or does not go on."""
        (topic,) = self._inputs.topics
        ends: dict[int, int] = {}
        last, last_ms = -1, self._scene.now_ms()
        while self._scene.now_ms() - last_ms < SETTLE_MS:
            with suppress(KafkaError):
                ends = ends or await end_offsets(self._scene, topic, "read_uncommitted")
            committed = {partition: self.transformed.committed(partition) for partition in ends}
            if ends and committed == ends:
                return
            if sum(committed.values()) > last:
                last, last_ms = sum(committed.values()), self._scene.now_ms()
            await self._scene.sleep(AGAIN_MS)

    async def _watch_offsets(self) -> None:
        async with Admin(self._scene.world, self._scene.client) as admin:
            while not self._is_settled:
                with suppress(KafkaError):
                    await self._note_offsets(admin)
                await self._scene.sleep(AGAIN_MS)

    async def _note_offsets(self, admin: Admin) -> None:
        found = await admin.group_offsets(self._group)
        for tp, offset in found.items():
            self.transformed.note_offset(tp.partition, offset.offset, self._scene.now_ms())


@dataclass(frozen=True, slots=True)
class Work:
    """What the workers share: the topic of their inputs, their group, and what they consumed."""

    inputs: str
    group: str
    transformed: Transformed


class Worker(Seat):
    """A member of the group. Its transactions are outputs and the offsets of their inputs."""

    def __init__(
        self,
        scene: Scene,
        topic: str,
        name: str,
        history: TransactionHistory,
        stop: asyncio.Event,
        work: Work,
    ) -> None:
        super().__init__(scene, topic, name, history, stop)
        self._work = work

    def _new_consumer(self) -> Consumer:
        config = ConsumerConfig(
            group_id=self._work.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_records=MOST_RECORDS,
        )
        consumer = Consumer(self._scene.world, self._client, config)
        consumer.subscribe([self._work.inputs])
        return consumer

    async def _fill(
        self, producer: Producer, transaction: ObservedTransaction, consumer: Consumer
    ) -> None:
        records: Sequence[ConsumerRecord] = []
        while not records:
            if self._stop.is_set():
                return
            records = await consumer.poll(POLL_MS)
        consumed = self._work.transformed.consumed
        consumed[transaction.number] = [identify(self._run, record.value) for record in records]
        await self._deliver(producer, transaction, [record.partition for record in records])
        await producer.send_offsets_to_transaction(consumer.consumed(), consumer.group_metadata)

    async def _rewind(self, consumer: Consumer) -> None:
        for tp, committed in (await consumer.committed()).items():
            if committed is None:
                consumer.seek_to_beginning(tp)
            else:
                consumer.seek(tp, committed.offset)
