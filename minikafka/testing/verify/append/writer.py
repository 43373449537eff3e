"""A producer of a verification run, which logs the outcome of every record.

The value of a record contains its identity.
"""

from __future__ import annotations

import asyncio

from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import raise_for
from minikafka.core.client.producer.calls import new_producer_id, produce
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.verify.append.history import IN_DOUBT, SOMEWHERE, RecordId, Written


def value_of(run: bytes, record: RecordId, size_bytes: int) -> bytes:
    """Return ``run producer number`` padded with dots to ``size_bytes``."""
    return (b"%s %d %d " % (run, *record)).ljust(size_bytes, b".")


def key_of(producer: int, partition: int, key: int) -> bytes:
    return b"%d-%d-%d" % (producer, partition, key)


def identify(run: bytes, value: bytes | None) -> RecordId | None:
    """Return the identity in a record's value; None if the record is not of this run."""
    words = (value or b"").split(b" ")
    if len(words) != 4 or words[0] != run or words[3].strip(b"."):
        return None
    if not (words[1].isdigit() and words[2].isdigit()):
        return None
    return RecordId(int(words[1]), int(words[2]))


TICK_MS = 10
LONGEST_MS = 200  # between two checks of ``stop``
BATCH_RECORDS = 100
ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """The settings of one producer; ``records_per_s`` is over all its partitions."""

    run: bytes
    topic: str
    records_per_s: int
    value_bytes: int = 100
    keys_per_partition: int = 5
    idempotent: bool = True
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NOBODY = Identity()


async def ask_for_identity(session: ClusterSession, deadline_ms: int) -> Identity:
    """Request a new producer id. Raises KafkaError after ``deadline_ms``."""

    async def attempt() -> Identity:
        given = await session.call_any(new_producer_id(), deadline_ms)
        return Identity(given.producer_id, given.epoch)

    return await session.retrying(attempt, deadline_ms)


class Writer:
    """A producer with acks=all and one batch in flight for each partition, resent unchanged.

    ``run`` ends when ``stop`` is set and every record is settled.
    """

    def __init__(self, session: ClusterSession, written: Written, config: WriterConfig) -> None:
        self._session = session
        self._written = written
        self._config = config
        self._identity: Identity | None = None
        self._asking = asyncio.Lock()
        self._started_ms = 0

    async def run(self, partitions: int, started_ms: int, stop: asyncio.Event) -> None:
        self._started_ms = started_ms
        per_s = self._config.records_per_s / partitions
        async with asyncio.TaskGroup() as tasks:
            for partition in range(partitions):
                tasks.create_task(self._keep_busy(partition, per_s, stop))

    async def _keep_busy(self, partition: int, per_s: float, stop: asyncio.Event) -> None:
        """Write ``per_s`` records a second to a partition, without catching up after an outage."""
        clock = self._session.world.clock
        identity, sequence, count = NOBODY, NO_SEQUENCE, 0
        due, last_ms = 0.0, clock.monotonic_ms()
        while not stop.is_set():
            now_ms = clock.monotonic_ms()
            due = min(due + (now_ms - last_ms) * per_s / 1000, float(BATCH_RECORDS))
            last_ms = now_ms
            if due < 1:
                await clock.sleep(min(max(int((1 - due) * 1000 / per_s), TICK_MS), LONGEST_MS))
                continue
            size = int(due)
            due -= size
            try:
                known = await self._identify()
            except KafkaError:  # no broker responds: retry until the run ends
                continue
            if known is not identity:
                identity, sequence = known, 0
            if await self._write(partition, count, size, identity, sequence):
                sequence += size if self._config.idempotent else 0
            elif self._identity is identity:
                self._identity = None  # the next sequence number is unknown
            count += size

    async def _identify(self) -> Identity:
        """Return the producer id in use, or request one. Raises KafkaError."""
        async with self._asking:
            if self._identity is None and self._config.idempotent:
                deadline_ms = self._session.deadline_ms(self._config.delivery_timeout_ms)
                self._identity = await ask_for_identity(self._session, deadline_ms)
            return self._identity or NOBODY

    def _now_ms(self) -> int:
        return self._session.world.clock.monotonic_ms() - self._started_ms

    async def _write(
        self, partition: int, first: int, size: int, identity: Identity, sequence: int
    ) -> bool:
        """Write a batch of new records; return False if its outcome is in doubt."""
        config, now_ms = self._config, self._now_ms()
        records: list[tuple[RecordId, bytes]] = []
        for number in range(first, first + size):
            key = number % config.keys_per_partition
            record = self._written.begin(partition, key, now_ms)
            records.append((record, key_of(self._written.producer, partition, key)))
        wall_ms = self._session.world.clock.wall_ms()
        batch = build_batch(
            [
                (wall_ms, key, value_of(config.run, record, config.value_bytes), ())
                for record, key in records
            ],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
        )
        base_offset = await self._deliver(TopicPartition(config.topic, partition), batch)
        for step, (record, _) in enumerate(records):
            offset = base_offset + step if base_offset >= 0 else base_offset
            self._written.settle(record.number, offset, self._now_ms())
        return base_offset != IN_DOUBT

    async def _deliver(self, tp: TopicPartition, batch: bytes) -> int:
        """Send a batch until acknowledged or out of time; return its base offset.

        SOMEWHERE if the broker reports a duplicate, IN_DOUBT if there was no acknowledgement.
        """
        session, config = self._session, self._config
        deadline_ms = session.deadline_ms(config.delivery_timeout_ms)

        async def attempt() -> int:
            leader = await session.metadata.leader(tp, session.remaining_ms(deadline_ms))
            call = produce([(tp, memoryview(batch))], ACKS_ALL, config.request_timeout_ms)
            row = (await session.call_within(leader, call, config.request_timeout_ms))[tp]
            code = ErrorCode(row.error_code)
            if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return SOMEWHERE
            raise_for(code, row.error_message)
            return max(int(row.base_offset), SOMEWHERE)

        try:
            return await session.retrying(attempt, deadline_ms)
        except KafkaError:
            return IN_DOUBT
