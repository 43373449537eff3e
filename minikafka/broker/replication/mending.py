"""Mends a damaged replica: a follower fetches the records again from the leader.

The scrubber of this broker finds the damaged batch. If the follower truncated its log at once, it
would be in the ISR without committed records, and could be elected. So it leaves the ISR first:

1. It stops fetching the partition, and sends the leader one Fetch from the offset to which it will
   truncate. The leader knows now how little this replica has, and removes it from the ISR after
   ``replica.lag.time.max.ms``. Until then, acks=all waits, as for any follower that lags.
2. When the state znode names it no longer, at the same leader epoch, it truncates its log, flushes
   the truncation, and fetches as a follower that has less data.

It does not begin while the other members of the ISR are fewer than ``min.insync.replicas``. A new
leader epoch ends an attempt, and the next one begins from the start. A leader does not mend itself,
since its log is what others follow: the damage is mended after another replica was elected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from minikafka.broker.purgatories import ReplicaPurgatories
from minikafka.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, CoordinationError
from minikafka.storage.scrubber.scrubber import DamagedBatch, LogScrubber
from minikafka.zookeeper.store import ZkStore

CHECK_MS: Final = 5_000


class _Attempt(NamedTuple):
    """A replica that has stopped fetching from ``leader``, and whether the leader knows how little
    it will have."""

    leader: int
    leader_epoch: int
    told: bool = False


class ReplicaMending:
    """Mends what ``scrubber`` has found, one partition after the other.

    ``store`` returns the store of the current ZooKeeper session. ``on_disk_error`` is called with
    every OSError."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        scrubber: LogScrubber,
        hosted: HostedPartitions,
        fetchers: ReplicaFetcherManager,
        purgatories: ReplicaPurgatories,
        store: Callable[[], ZkStore],
        on_disk_error: Callable[[TopicPartition, OSError], object],
        log: EventLog,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._scrubber = scrubber
        self._hosted = hosted
        self._fetchers = fetchers
        self._purgatories = purgatories
        self._store = store
        self._on_disk_error = on_disk_error
        self._log = log
        self._attempts: dict[TopicPartition, _Attempt] = {}
        self._states: dict[TopicPartition, str] = {}

    async def run(self) -> None:
        while True:
            await self._clock.sleep(CHECK_MS)
            await self.check()

    def facts(self, limit: int) -> dict[str, Any]:
        """Return what the debug listener shows: the scrubber's facts, and what becomes of each
        damaged batch."""
        facts = self._scrubber.facts(limit)
        for row in facts["damaged"]:
            topic_partition = TopicPartition(row["topic"], row["partition"])
            row["state"] = self._states.get(topic_partition, "found")
        return facts

    async def check(self) -> None:
        """Do the next step for each damaged log. Call it again after ``CHECK_MS``."""
        damaged = self._scrubber.damaged()
        known = {batch.topic_partition for batch in damaged}
        self._states = {tp: state for tp, state in self._states.items() if tp in known}
        for batch in damaged:
            topic_partition = batch.topic_partition
            partition = self._hosted.get(topic_partition)
            if partition is None or not partition.has_log or partition.log is not batch.log:
                continue
            try:
                self._note(batch, await self._step(partition, batch))
            except (CoordinationError, KafkaError) as error:
                self._log.warning(
                    "mending_failed", partition=str(topic_partition), error=repr(error)
                )
            except OSError as error:
                self._on_disk_error(topic_partition, error)

    def _note(self, batch: DamagedBatch, state: str) -> None:
        topic_partition = batch.topic_partition
        if self._states.get(topic_partition) != state:
            self._states[topic_partition] = state
            self._log.warning(
                "damaged_replica",
                partition=str(topic_partition),
                offset=batch.offset,
                state=state,
            )

    async def _step(self, partition: Partition, batch: DamagedBatch) -> str:
        topic_partition = partition.topic_partition
        attempt = self._attempts.get(topic_partition)
        source = self._fetchers.source_of(topic_partition)
        epoch = partition.leader_epoch
        if attempt is not None and (source is not None or attempt.leader_epoch != epoch):
            del self._attempts[topic_partition]  # a LeaderAndIsr has begun something new
            attempt = None
        if partition.is_leader:
            if partition.state.replication_factor == 1:
                return "no other replica has these records"
            if len(partition.state.isr.committed) == 1:
                return "this broker leads, and no other replica is in sync"
            return "this broker leads: elect another leader, then it fetches the records again"
        if attempt is None and source is None:
            return "the partition has no leader"
        found = (await self._store().leader_isr_states([topic_partition])).get(topic_partition)
        if (
            found is None
            or found.leader_and_isr.leader_epoch != epoch
            or partition.leader_epoch != epoch
            or not batch.is_there
        ):
            return "the leader is changing"
        isr = found.leader_and_isr.isr
        if attempt is None:
            source = self._fetchers.source_of(topic_partition)
            others = len(set(isr) - {self._broker_id})
            if source is None or others < max(1, partition.config.min_insync_replicas):
                return "waits until more replicas are in sync"
            self._fetchers.remove([topic_partition])
            attempt = _Attempt(source, epoch)
        elif attempt.told and self._broker_id not in isr:
            self._truncate(partition, batch, attempt)
            return "fetches the records again"
        self._attempts[topic_partition] = attempt
        await self._tell_leader(partition, batch, attempt)
        return "leaves the ISR"

    async def _tell_leader(
        self, partition: Partition, batch: DamagedBatch, attempt: _Attempt
    ) -> None:
        """Send one Fetch from the offset of the truncation. Its records are dropped."""
        state = self._fetch_state(partition, _kept(batch), None)
        try:
            await self._fetchers.fetch_once(attempt.leader, partition.topic_partition, state)
        except OSError as error:
            self._log.info("leader_unreachable", source=attempt.leader, error=repr(error))
            return
        if self._attempts.get(partition.topic_partition) is attempt:
            self._attempts[partition.topic_partition] = attempt._replace(told=True)

    def _truncate(self, partition: Partition, batch: DamagedBatch, attempt: _Attempt) -> None:
        topic_partition, log = partition.topic_partition, partition.log
        kept = _kept(batch)
        self._log.warning(
            "damaged_replica_truncated",
            partition=str(topic_partition),
            offset=kept,
            log_end_offset=log.log_end_offset,
            leader=attempt.leader,
        )
        if kept <= log.log_start_offset:
            partition.truncate_fully_and_start_at(log.log_start_offset)
        else:
            partition.truncate_to(kept)
        del self._attempts[topic_partition]
        self._purgatories.partition_changed(topic_partition)
        state = self._fetch_state(partition, log.log_end_offset, log.latest_epoch)
        self._fetchers.add(attempt.leader, topic_partition, state)
        self._fetchers.flush_truncation(topic_partition)

    def _fetch_state(
        self, partition: Partition, offset: int, epoch: int | None
    ) -> PartitionFetchState:
        return PartitionFetchState(
            partition.topic_id,
            partition.leader_epoch,
            offset,
            epoch,
            truncating=partition.log.cut_unflushed,
        )


def _kept(batch: DamagedBatch) -> int:
    """Return the log end offset after the truncation."""
    return max(batch.keep_below, batch.log.log_start_offset)
