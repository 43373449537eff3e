"""A verification run against a cluster: create a topic, write and read records, check them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import field

from minikafka.client import Admin, ClientConfig, Consumer, ConsumerConfig
from minikafka.client.session import ClusterSession
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.testing.verify.history import History, Reading, Written
from minikafka.testing.verify.judge import judge
from minikafka.testing.verify.report import RunVerdict, verdict
from minikafka.testing.verify.writer import Writer, WriterConfig, ask_for_identity, identify

POLL_MS = 200
PROGRESS_MS = 1_000
MOST_COMPLAINTS = 10
UNREACHABLE = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
NEVER = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE)  # at any position of a reader


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings of a run.

    ``replication_factor`` -1: three, or the number of brokers. ``topic`` empty: a new name. The
    topic is deleted after a run without violations, unless ``keep_topic``.
    """

    duration_ms: int = 30_000
    producers: int = 3
    consumers: int = 2
    partitions: int = 6
    replication_factor: int = -1
    records_per_s: int = 1_000
    value_bytes: int = 100
    idempotent: bool = True
    topic: str = ""
    keep_topic: bool = False
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of the run so far. ``silent_ms``: time since the count of acknowledgements grew."""

    elapsed_ms: int
    acknowledged: int
    in_doubt: int
    read: int
    silent_ms: int


class Run:
    """A run; call ``execute`` once. ``stop`` ends the producers early, and the checks follow."""

    def __init__(
        self,
        world: World,
        client: ClientConfig,
        config: RunConfig,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._world = world
        self._client = client
        self._config = config
        self._on_progress = on_progress
        self._run = world.entropy.random_bytes(4).hex()
        self.topic = config.topic or f"minikafka-verify-{self._run}"
        self._written = [Written(number) for number in range(config.producers)]
        self._readings = [Reading(f"reader {number + 1}") for number in range(config.consumers)]
        self._stop = asyncio.Event()
        self._settled = asyncio.Event()
        self._started_ms = 0
        self._settled_ms = 0
        self._promised: dict[
            int, int
        ] = {}  # end offset after the last acknowledged record, by partition

    def stop(self) -> None:
        self._stop.set()

    async def execute(self) -> RunVerdict:
        """Write, read and check; return the result.

        Raises KafkaError if the topic cannot be created, brokers give no producer ids, or the topic
        cannot be read at the end; ConnectionError if no broker has ever responded.
        """
        await self._create_topic()
        await self._check_idempotence()
        self._started_ms = self._world.clock.monotonic_ms()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load())
            for reading in self._readings:
                tasks.create_task(self._read(reading))
            watching = tasks.create_task(self._watch())
            await self._settled.wait()
            watching.cancel()
        final = Reading("final reading")
        history = History(self._written, self._readings, final, idempotent=self._config.idempotent)
        await self._read_all(history)
        result = verdict(self.topic, history, judge(history))
        if result.ok and not self._config.keep_topic:
            async with Admin(self._world, self._client) as admin:
                await admin.delete_topic(self.topic)
        return result

    async def _create_topic(self) -> None:
        config = self._config
        async with Admin(self._world, self._client) as admin:
            copies = config.replication_factor
            brokers = await self._count_brokers(admin)
            if copies < 1:
                copies = min(3, brokers)
            # An acknowledged record with only one copy may be lost with its broker.
            configs = {"min.insync.replicas": "2" if copies > 2 else "1", **config.topic_configs}
            await admin.create_topic(self.topic, config.partitions, copies, configs)
            await admin.wait_for_topic(self.topic, config.partitions)

    async def _count_brokers(self, admin: Admin) -> int:
        """Raises ConnectionError if no address of ``bootstrap_servers`` responds."""
        try:
            return len((await admin.describe_cluster()).nodes)
        except KafkaError as error:
            if (
                error.retriable
                and error.code in UNREACHABLE
                and not admin.session.metadata.view.nodes
            ):
                servers = self._client.bootstrap_servers
                raise ConnectionError(
                    f"no broker responded at {servers}; the last error was {error}"
                ) from error
            raise

    async def _check_idempotence(self) -> None:
        """Raises KafkaError UNSUPPORTED_VERSION if the brokers give no producer ids."""
        if self._config.idempotent:
            async with Admin(self._world, self._client) as admin:
                await ask_for_identity(admin.session, admin.session.deadline_ms())

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms() - self._started_ms

    # -- load

    async def _load(self) -> None:
        config = self._config
        writer_config = WriterConfig(
            run=self._run.encode(),
            topic=self.topic,
            records_per_s=max(1, config.records_per_s // max(1, config.producers)),
            value_bytes=config.value_bytes,
            idempotent=config.idempotent,
            request_timeout_ms=config.request_timeout_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
        )
        sessions = [ClusterSession(self._world, self._client) for _ in self._written]
        try:
            async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
                for session in sessions:
                    session.start(tasks)
                    stack.push_async_callback(session.close)
                async with asyncio.TaskGroup() as writers:
                    for session, written in zip(sessions, self._written, strict=True):
                        writer = Writer(session, written, writer_config)
                        writers.create_task(
                            writer.run(config.partitions, self._started_ms, self._stop)
                        )
                    writers.create_task(self._end_in_time())
        finally:
            self._settled_ms = self._now_ms()
            self._promised = self._ends_of_promises()
            self._settled.set()

    async def _end_in_time(self) -> None:
        left_ms = self._config.duration_ms
        while left_ms > 0 and not self._stop.is_set():
            await self._world.clock.sleep(min(POLL_MS, left_ms))
            left_ms = self._config.duration_ms - self._now_ms()
        self._stop.set()

    async def _watch(self) -> None:
        acknowledged, since_ms = 0, 0
        while True:
            await self._world.clock.sleep(PROGRESS_MS)
            count = sum(written.acknowledged for written in self._written)
            now_ms = self._now_ms()
            if count > acknowledged:
                acknowledged, since_ms = count, now_ms
            self._on_progress(
                Progress(
                    now_ms,
                    count,
                    sum(written.in_doubt for written in self._written),
                    sum(reading.count for reading in self._readings),
                    now_ms - since_ms,
                )
            )

    # -- readers

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(self._config.partitions)]

    async def _read(self, reading: Reading) -> None:
        """Read until all acknowledged records are read, or none arrives within the API time-out.

        After an error the reader continues at its position with a new consumer.
        """
        positions = dict.fromkeys(self._partitions(), 0)
        await self._read_to_the_end(reading, positions)
        for tp, position in positions.items():
            if position < self._promised.get(tp.partition, 0):
                reading.short_of[tp.partition] = self._promised[tp.partition]

    async def _read_to_the_end(
        self, reading: Reading, positions: dict[TopicPartition, int]
    ) -> None:
        while not self._is_read(reading, positions):
            config = ConsumerConfig(auto_offset_reset="none")
            async with Consumer(self._world, self._client, config) as consumer:
                consumer.assign(positions)
                for tp, position in positions.items():
                    consumer.seek(tp, position)
                try:
                    while not self._is_read(reading, positions):
                        await self._read_some(consumer, reading, positions)
                except KafkaError as error:
                    if error.code in NEVER or not error.retriable:
                        reading.complaints.append(f"at {self._now_ms() / 1000:.3f} s: {error}")
                    if len(reading.complaints) >= MOST_COMPLAINTS:
                        return
                    await self._world.clock.sleep(PROGRESS_MS)

    def _is_read(self, reading: Reading, positions: Mapping[TopicPartition, int]) -> bool:
        if not self._settled.is_set():
            return False
        idle_ms = self._now_ms() - max(self._settled_ms, reading.last_ms)
        return idle_ms >= self._client.default_api_timeout_ms or all(
            position >= self._promised[tp.partition] for tp, position in positions.items()
        )

    async def _read_some(
        self, consumer: Consumer, reading: Reading, positions: dict[TopicPartition, int]
    ) -> None:
        run = self._run.encode()
        for record in await consumer.poll(POLL_MS):
            found = identify(run, record.value)
            reading.see(record.partition, record.offset, found, self._now_ms())
            positions[TopicPartition(self.topic, record.partition)] = record.offset + 1
        for tp in positions:
            reading.note_mark(tp.partition, consumer.high_watermark(tp))

    async def _read_all(self, history: History) -> None:
        """Read all partitions to their end offsets, and to acknowledged records beyond these.

        A new leader may need some time to advance its high watermark; records that cannot be read
        within the API time-out count as missing.
        """
        config = ConsumerConfig(auto_offset_reset="earliest")
        run, promised = self._run.encode(), self._promised
        async with Consumer(self._world, self._client, config) as consumer:
            consumer.assign(self._partitions())
            ends = await consumer.end_offsets()
            history.ends = {tp.partition: end for tp, end in ends.items()}
            try:
                async for record in consumer.read_to(
                    {tp: max(end, promised[tp.partition]) for tp, end in ends.items()}
                ):
                    found = identify(run, record.value)
                    history.final.see(record.partition, record.offset, found, self._now_ms())
                    history.ends[record.partition] = max(
                        history.ends[record.partition], record.offset + 1
                    )
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                    raise
                for tp, end in ends.items():
                    if await consumer.position(tp) < end:
                        history.final.short_of[tp.partition] = end

    def _ends_of_promises(self) -> dict[int, int]:
        """Return the offset after the last acknowledged record of each partition."""
        promised = dict.fromkeys(range(self._config.partitions), 0)
        for written in self._written:
            for sent in written:
                promised[sent.partition] = max(promised[sent.partition], sent.offset + 1)
        return promised
