"""Mends damaged logs: fetches the records from another replica again.

The scrubber of this broker finds a damaged batch. Nothing is truncated, because the other replica
may be damaged, too, there or further up: the segment is rebuilt beside the old one, which is
replaced only when all its batches are sound (``storage/segment_repair``). So a replica may
stay in the ISR meanwhile, and a leader is mended like a follower.

The leader is the first source, then the other members of the ISR; these serve it as they serve
consumers (KIP-392), up to their high watermark. If no source has sound records, the log stays as it
is, and the next attempt follows after ``RETRY_MS``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Buffer, Clock, CoordinationError
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.storage.scrubber import DamagedBatch
from minikafka.server.storage.segment_repair import NoReplacement, SegmentChanged
from minikafka.server.zookeeper.store import ZkStore

CHECK_MS: Final = 5_000
RETRY_MS: Final = 60_000


class ReplicaMending:
    """Mends what the scrubber of ``log_manager`` has found, one log after the other.

    ``store`` returns the store of the current ZooKeeper session. ``on_disk_error`` is called with
    every OSError of this broker's disk."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        log_manager: LogManager,
        hosted: HostedPartitions,
        fetchers: ReplicaFetcherManager,
        store: Callable[[], ZkStore],
        on_disk_error: Callable[[TopicPartition, OSError], object],
        log: EventLog,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._log_manager = log_manager
        self._hosted = hosted
        self._fetchers = fetchers
        self._store = store
        self._on_disk_error = on_disk_error
        self._log = log
        self._states: dict[TopicPartition, str] = {}
        self._retries: dict[TopicPartition, int] = {}  # when the next attempt may begin (ms)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(CHECK_MS)
            await self.check()

    def facts(self, limit: int) -> dict[str, Any]:
        """Return what the debug listener shows: the scrubber's facts, and what becomes of each
        damaged batch."""
        facts = self._log_manager.scrubber.facts(limit)
        for row in facts["damaged"]:
            topic_partition = TopicPartition(row["topic"], row["partition"])
            row["state"] = self._states.get(topic_partition, "found")
        return facts

    async def check(self) -> None:
        """Try to mend each damaged log whose time has come."""
        damaged = self._log_manager.scrubber.damaged()
        known = {batch.topic_partition for batch in damaged}
        self._states = {tp: state for tp, state in self._states.items() if tp in known}
        self._retries = {tp: due for tp, due in self._retries.items() if tp in known}
        for batch in damaged:
            topic_partition = batch.topic_partition
            partition = self._hosted.get(topic_partition)
            if partition is None or not partition.has_log or partition.log is not batch.log:
                continue
            if self._clock.monotonic_ms() < self._retries.get(topic_partition, 0):
                continue
            try:
                state = await self._mend(partition, batch)
            except SegmentChanged:
                continue  # the scrubber looks at what the log has now
            except (CoordinationError, KafkaError) as error:
                state = f"failed: {error!r}"
            except OSError as error:
                self._on_disk_error(topic_partition, error)
                continue
            self._retries[topic_partition] = self._clock.monotonic_ms() + RETRY_MS
            self._note(batch, state)

    def _note(self, batch: DamagedBatch, state: str) -> None:
        topic_partition = batch.topic_partition
        if self._states.get(topic_partition) != state:
            self._states[topic_partition] = state
            self._log.warning(
                "damaged_replica_found",
                partition=str(topic_partition),
                offset=batch.offset,
                state=state,
            )

    async def _mend(self, partition: Partition, batch: DamagedBatch) -> str:
        """Return how the attempt has ended. Raises SegmentChanged, CoordinationError, KafkaError,
        and OSError of this broker's disk."""
        topic_partition = partition.topic_partition
        found = (await self._store().leader_isr_states([topic_partition])).get(topic_partition)
        if found is None:
            return "the partition has no state"
        leader, isr = found.leader_and_isr.leader, found.leader_and_isr.isr
        sources = [b for b in sorted(isr, key=lambda b: b != leader) if b != self._broker_id]
        if not sources:
            return "no other replica is in sync"
        reasons = []
        for source in sources:
            if not batch.is_there:
                raise SegmentChanged
            try:
                await self._log_manager.repair(batch, partial(self._fetch, source, partition))
            except NoReplacement as error:
                reasons.append(f"broker {source}: {error}")
            else:
                return f"mended from broker {source}"
        return "; ".join(reasons)

    async def _fetch(self, source: int, partition: Partition, offset: int) -> Buffer:
        """Return the batches of ``source`` from ``offset`` on. Raises NoReplacement."""
        try:
            return await self._fetchers.read_once(
                source, partition.topic_partition, partition.leader_epoch, offset
            )
        except OSError as error:
            raise NoReplacement(str(error) or repr(error)) from error
