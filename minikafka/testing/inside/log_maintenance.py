"""Compaction and retention of a topic now, on all of its replicas, instead of in the background."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from minikafka.core.log.compaction import Dirt, dirt_of
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.node.broker import BrokerNode
from minikafka.server.storage.directories.background_tasks import delete_old_segments
from minikafka.server.storage.log_facts import facts_of, log_facts
from minikafka.testing.inside.brokers import BrokerState, until


class LogMaintenance:
    """Maintains the logs of the running ``brokers``. All methods run on the cluster's event
    loop."""

    def __init__(self, brokers: Mapping[int, BrokerState], clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._log = event_log("log_cleaner")

    async def compact(self, topic: str) -> None:
        """Compact a topic up to the end of its log, or to the first open transaction. Raises
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG if the topic is not compacted."""
        replicas = await self._level_replicas(topic)
        if not all(replica.log.config.compacts for _, replica in replicas):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"cleanup.policy of {topic} does not have compact"
            )
        for node, replica in replicas:
            log = replica.log
            active = log.segments.active
            if active is None:
                continue  # no record was ever written
            is_stable = replica.last_stable_offset >= log.log_end_offset
            if is_stable and active.size_bytes:
                log.roll()
            dirt = self._dirt(replica)
            if dirt.cleanable_bytes:
                directory = next(
                    found
                    for found in node.entities.logs.directories.live
                    if found.logs.get(log.topic_partition) is log
                )
                await node.entities.logs.cleaner.clean_now(directory, log, dirt)

    async def apply_retention(self, topic: str | None = None) -> int:
        """Delete the segments of a topic, or of all, that ``retention.ms``, ``retention.bytes`` and
        deleted records leave to delete. Returns their number on all replicas. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, and OSError."""
        replicas = await self._level_replicas(topic)
        now_ms = self._clock.wall_ms()
        return sum(
            delete_old_segments(replica.log, now_ms, replica.high_watermark, self._log)
            for _, replica in replicas
        )

    def _dirt(self, replica: Partition) -> Dirt:
        """Return what to clean: all rolled segments below the last stable offset, whatever
        ``min.compaction.lag.ms`` is.

        The cleaner in the background spares the last segment with records, too, since the log must
        not end in a gap. Here it is cleaned: its last record is the newest one of its key. Only a
        tombstone that ``delete.retention.ms=0`` removes at once is an exception."""
        log = replica.log
        facts = log_facts(log, replica.last_stable_offset)
        if log.config.delete_retention_ms == 0:
            return dirt_of(facts, log.config, self._clock.wall_ms())
        segments = [facts_of(segment) for segment in log.segments]
        cleanable = [
            segment
            for segment, following in pairwise(segments)
            if following.base_offset <= facts.stable_offset
        ]
        end = segments[len(cleanable)].base_offset
        return Dirt(log.log_start_offset, end, 0, sum(s.size_bytes for s in cleanable))

    # ------------------------------------------------------------------------------------- details

    async def _level_replicas(self, topic: str | None) -> list[tuple[BrokerNode, Partition]]:
        """Return the replicas on running brokers, when those in the ISR have the records and the
        high watermark that the leader has now. Raises KafkaError for an unknown topic."""
        found = self._replicas(topic)
        if topic is not None and not found:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        leaders = [replica for _, replica in found if replica.is_leader]
        ends = {leader.topic_partition: leader.log.log_end_offset for leader in leaders}

        def are_level() -> bool:
            return all(
                replica.high_watermark >= ends[replica.topic_partition]
                for node, replica in self._replicas(topic)
                if replica.topic_partition in ends and self._is_in_sync(node, replica)
            )

        await until(are_level, f"the replicas of {topic or 'all topics'} are in sync")
        return self._replicas(topic)

    def _replicas(self, topic: str | None) -> list[tuple[BrokerNode, Partition]]:
        return [
            (broker.node, replica)
            for broker in self._brokers.values()
            if broker.node is not None
            for replica in broker.node.entities.partitions
            if topic in (None, replica.topic_partition.topic) and replica.has_log
        ]

    def _is_in_sync(self, node: BrokerNode, replica: Partition) -> bool:
        state = node.entities.metadata.partition(replica.topic_partition)
        return state is not None and node.broker_id in state.isr
