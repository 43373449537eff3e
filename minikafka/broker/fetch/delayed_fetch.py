"""A fetch that waits for enough to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from minikafka.broker.fetch.reader import (
    FetchEntry,
    FetchParams,
    FetchReader,
    Isolation,
    ReadResult,
    end_of,
)
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError

FetchReply: TypeAlias = Callable[[Sequence[ReadResult]], None]


class DelayedFetch(DelayedOperation):
    """Completes in any of Kafka's cases:

    A. This broker no longer leads one of the partitions.
    B. The replica is no longer here.
    C. This broker does not know one of the partitions.
    D. The disk of one of the partitions failed.
    E. The epoch given is fenced by now.
    F. The fetch offset lies beyond the log's end, which was cut meanwhile, or before its start,
       as records were deleted. (Kafka counts an offset on an older segment here too, as it cannot
       measure across segments; we can. It also counts one between the high watermark and the log's
       end, and answers it with nothing, at once and over again; here that waits.)
    G. The bytes that can be read by now reach ``min_bytes``. Those of throttled replicas do not
       count (KIP-73).
    H. The logs part: the follower has to truncate.
    I. The follower is to be told the high watermark (see ``HighWatermarkNews``). Kafka 2.4 and 2.5
       did so at every move; later ones let it wait for the next answer.

    A to E all show as a leader epoch that is not the one at parking: a closed partition has none. A
    newer one is no reason to answer a follower (in Kafka it is): the controller tells that itself,
    and it asks anew then; it would only ask on at once for all else that it follows. H takes a
    truncation, and so comes with E or F. Whatever the case, and also when time runs out, the logs
    are read again and what is there is answered.
    """

    __slots__ = ("_on_expired", "_params", "_reader", "_reply", "_watched")

    def __init__(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        hosted: HostedPartitions,
        reader: FetchReader,
        reply: FetchReply,
        on_expired: Callable[[FetchParams], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._reader = reader
        self._reply = reply
        self._on_expired = on_expired
        self._watched = [
            (partition, partition.state.leader_epoch, entry)
            for entry in entries
            for partition in (hosted.require(entry.topic_partition),)
        ]

    def try_complete(self) -> bool:
        return self._has_reason() and self.force_complete()

    def _has_reason(self) -> bool:
        """Called at every append to any of what may be a thousand partitions, of which hardly one
        has anything new: that has to be cheap to see."""
        replica_id, isolation = self._params.replica_id, self._params.isolation
        min_bytes, throttle = self._params.min_bytes, self._reader.throttle
        to_log_end = isolation is Isolation.LOG_END
        available = 0
        for partition, leader_epoch, entry in self._watched:
            if partition.state.leader_epoch != leader_epoch:
                if replica_id >= 0 and partition.state.leader_epoch > leader_epoch:
                    continue
                return True  # A, B, C, D, E
            end = partition.log.log_end_offset if to_log_end else end_of(partition, isolation)
            if entry.fetch_offset == end:
                answers = partition.answers
                if answers.telling and answers.is_to_be_told(replica_id, partition.high_watermark):
                    return True  # I
                continue
            if entry.fetch_offset > end:
                if entry.fetch_offset > partition.log.log_end_offset:
                    return True  # F
                continue  # not committed yet, or not decided
            if throttle.quota.limited and throttle.holds_back(partition, replica_id):
                continue
            try:
                size = partition.log.available_bytes(entry.fetch_offset, end)
            except (KafkaError, OSError):
                return True  # F, or what reading again tells
            available += min(size, entry.max_bytes)
            if available >= min_bytes:
                return True  # G
        return False

    def on_complete(self) -> None:
        reply, entries = self._reply, [entry for _, _, entry in self._watched]
        # This lingers in the watch lists of quiet partitions until a purge. What was read would do
        # so too: whoever has the reply has it.
        del self._reply
        self._watched = []
        reply(self._reader.read(self._params, entries, None).results)

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (entry.topic_partition for _, _, entry in self._watched)

    def on_expiration(self) -> None:
        self._on_expired(self._params)
