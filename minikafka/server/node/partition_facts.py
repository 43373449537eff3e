"""The facts about a broker's partitions that change while a page looks at them.

A look costs little where nothing has changed: a tuple of what may have changed is compared with the
one of the last look before facts are made. And however many partitions there are, one look compares
``COMPARED`` of them, beside those of the topics that a page watches.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, TypeAlias

from minikafka.core.entity_changes import EntityChanges
from minikafka.core.replication.partition_state import NEVER_MS
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition

MAX_PARTITIONS: Final = 1000  # beside those of watched topics, of which there may be as many
COMPARED: Final = 125  # of the others, by one look
CHOICE_MS: Final = 5_000  # how long partitions are taken for those there are, if as many
KIND: Final = "partition"

# From which broker a follower fetches, and how many offsets it is behind.
Fetched: TypeAlias = tuple[int, int] | None
# When each follower had all records, in ms since 1970; without those that have them.
CaughtUp: TypeAlias = Mapping[str, int | None]


class PartitionFacts:
    """Follows the partitions of ``hosted`` in ``changes``. ``wall_offset_ms`` added to a time of
    the monotonic clock is a time since 1970, so that facts do not change while nothing happens."""

    def __init__(
        self,
        hosted: HostedPartitions,
        fetchers: ReplicaFetcherManager,
        changes: EntityChanges,
        wall_offset_ms: int,
    ) -> None:
        self._hosted = hosted
        self._fetchers = fetchers
        self._changes = changes
        self._wall_offset_ms = wall_offset_ms
        self._known: dict[TopicPartition, object] = {}  # what was compared at the last look
        self._topics: frozenset[str] = frozenset()
        self._watched: list[Partition] = []
        self._others: list[Partition] = []
        self._next = 0  # of the others, which take turns
        self._count = 0
        self._chosen_ms = 0

    def look(self, topics: frozenset[str], now_ms: int) -> Generator[None, None, None]:
        """Compare the partitions of ``topics`` and the next ``COMPARED`` of the others; yield after
        each. Now and then all partitions are gone through, to choose those."""
        is_old = now_ms - self._chosen_ms >= CHOICE_MS
        if is_old or topics != self._topics or len(self._hosted) != self._count:
            yield from self._choose(topics, now_ms)
        start = self._next if self._next < len(self._others) else 0
        self._next = start + COMPARED
        for partition in [*self._watched, *self._others[start : self._next]]:
            if partition.has_log:  # it may have been deleted meanwhile
                self._compare(partition)
            yield

    def _choose(self, topics: frozenset[str], now_ms: int) -> Generator[None, None, None]:
        self._topics, self._chosen_ms, self._count = topics, now_ms, len(self._hosted)
        watched: list[Partition] = []
        others: list[Partition] = []
        for partition in list(self._hosted):
            if partition.has_log:
                (watched if partition.topic_partition.topic in topics else others).append(partition)
            yield
        self._watched, self._others = watched[:MAX_PARTITIONS], others[:MAX_PARTITIONS]
        yield
        chosen = {each.topic_partition for each in (*self._watched, *self._others)}
        for topic_partition in [tp for tp in self._known if tp not in chosen]:
            del self._known[topic_partition]
            self._changes.remove((KIND, str(topic_partition)))

    def _compare(self, partition: Partition) -> None:
        topic_partition, log = partition.topic_partition, partition.log
        fetched: Fetched = None
        caught_up: CaughtUp | None = None
        of_role: object
        if partition.is_leader:
            followers = partition.followers.items()
            isr, end = partition.state.isr.committed, log.log_end_offset
            late = [b for b, f in followers if f.log_end_offset != end or b not in isr]
            caught_up = self._caught_up(partition, late) if late else {}
            of_role = (*[f.log_end_offset for _, f in followers], caught_up)
        else:
            of_role = fetched = self._fetchers.lag_of(topic_partition)
        compared = (
            partition.state,
            partition.high_watermark,
            log.log_end_offset,
            log.log_start_offset,
            partition.last_stable_offset,
            of_role,
        )
        if self._known.get(topic_partition) != compared:
            self._known[topic_partition] = compared
            facts = partition_facts(partition, fetched, caught_up)
            self._changes.put((KIND, str(topic_partition)), facts)

    def _caught_up(self, partition: Partition, late: Iterable[int]) -> CaughtUp:
        offset_ms, followers = self._wall_offset_ms, partition.followers
        times = {str(broker): followers[broker].last_caught_up_ms for broker in late}
        return {
            broker: None if at_ms == NEVER_MS else at_ms + offset_ms
            for broker, at_ms in times.items()
        }


def partition_facts(
    partition: Partition, fetched: Fetched = None, caught_up: CaughtUp | None = None
) -> Mapping[str, Any]:
    """Return the state of a replica as JSON values; ``fetched`` is that of a follower and
    ``caught_up`` that of a leader's followers."""
    log, state = partition.log, partition.state
    facts: dict[str, Any] = {
        "is_leader": partition.is_leader,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.zk_version,
        "replicas": list(state.assignment.replicas),
        "log_start_offset": log.log_start_offset,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_end_offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "segments": len(log.segments),
    }
    if partition.is_leader:
        isr = state.isr
        facts["leader_epoch_start"] = state.leader_epoch_start_offset
        facts["isr"] = list(isr.committed)
        facts["proposed_isr"] = None if isr.proposed is None else list(isr.proposed)
        facts["followers"] = {
            str(broker): follower.log_end_offset for broker, follower in partition.followers.items()
        }
        facts["caught_up_ms"] = caught_up or {}
    elif fetched is not None:
        facts["fetched_from"], facts["lag"] = fetched
    return facts
