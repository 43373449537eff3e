"""Fetch sessions of followers: each request reads only the partitions that may have changed.

A follower of thousands of partitions sends a Fetch twice a second, and most of them have not
changed. A partition is *settled* in a follower's session when the next read would only repeat the
last response: the follower is in the ISR, has all records, and knows the watermarks. From then on
the session leaves the partition out, until the partition reports its next change (an append, a
watermark, an epoch, its end) by ``unsettle``, or the follower names it again. So an idle partition
costs nothing. Kafka reads all partitions of the session with every request.

A request that is parked grows: a partition that changes meanwhile joins it before the change, so
that what completes the operations of that partition finds it.

The log start moves without a report, as when old segments are deleted. The number of all such moves
is compared instead, with each request and before each response.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from minikafka.core.replication.fetch_session import (
    CachedPartition,
    FetchSession,
    PartitionKey,
    PartitionRead,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.fetch.reader import FetchEntry, ReadResult, repeated_response
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.directories.log_starts import LogStarts

Sent: TypeAlias = tuple[PartitionKey, CachedPartition[FetchEntry]]


class GrowingFetch(Protocol):
    """A parked fetch (``DelayedFetch``)."""

    def also_wait_for(self, partition: Partition, entry: FetchEntry) -> None: ...


class FollowerFetch:
    """A request of a follower's session that has no response yet. ``sent`` and ``entries`` are the
    partitions that are read for the response, in the same order; they grow while it is parked."""

    __slots__ = ("_late", "_parked", "entries", "sent", "session")

    def __init__(
        self, session: FollowerSession, sent: list[Sent], entries: list[FetchEntry]
    ) -> None:
        self.sent = sent
        self.entries = entries
        self.session = session
        self._late: list[tuple[Sent, Partition]] = []
        self._parked: GrowingFetch | None = None  # until it is read for its response

    @property
    def key(self) -> Hashable:
        """What the request watches besides its partitions, of which it may have none."""
        return "fetch-session", self.session.id

    @property
    def is_empty(self) -> bool:
        """Whether the session has no partitions."""
        return not self.session.partitions

    def park(self, parked: GrowingFetch) -> None:
        """The request is going to be parked. It takes in the partitions that have changed since it
        was read."""
        self._parked = parked
        late, self._late = self._late, []
        for sent, partition in late:
            self._take_in(sent, partition, parked)

    def add(self, sent: Sent, partition: Partition) -> None:
        """Add a settled partition, which is about to change, once the request is parked."""
        if self._parked is None:
            self._late.append((sent, partition))
        else:
            self._take_in(sent, partition, self._parked)

    def take_in_all(self) -> None:
        """Take in all settled partitions, for a response that refuses every one."""
        self.session.unsettle_all()
        late, self._late = self._late, []
        for sent, _ in late:
            self.sent.append(sent)
            self.entries.append(sent[1].request)

    def before_read(self) -> None:
        """Called before the parked request is read for its response. It grows no more afterwards:
        the read itself may take a partition offline."""
        self.session.notice_moves()
        self._parked = None

    def _take_in(self, sent: Sent, partition: Partition, parked: GrowingFetch) -> None:
        entry = sent[1].request
        self.sent.append(sent)
        self.entries.append(entry)
        parked.also_wait_for(partition, entry)


class FollowerSession(FetchSession[FetchEntry]):
    """The session of one follower. It reads all partitions again if one of ``log_starts`` moves."""

    __slots__ = (
        "_hosted",
        "_log_starts",
        "_moves",
        "_settled",
        "_to_read",
        "_underway",
        "replica_id",
    )

    def __init__(
        self,
        session_id: int,
        replica_id: int,
        by_id: bool,
        now_ms: int,
        hosted: HostedPartitions,
        log_starts: LogStarts,
    ) -> None:
        super().__init__(session_id, True, by_id, now_ms)
        self.replica_id = replica_id
        self._hosted = hosted
        self._log_starts = log_starts
        self._moves = log_starts.moves
        # Each partition of the session is in one of the two.
        self._to_read: dict[PartitionKey, CachedPartition[FetchEntry]] = {}
        self._settled: dict[TopicPartition, tuple[PartitionKey, Partition]] = {}
        self._underway: FollowerFetch | None = None

    # ------------------------------------------------------------------------------------ requests

    def update(
        self, requests: Mapping[PartitionKey, FetchEntry], forgotten: Iterable[PartitionKey]
    ) -> None:
        self._underway = None  # a request that has no response yet gets none of these
        forgotten = list(forgotten)
        for key in (*requests, *forgotten):
            cached = self.partitions.get(key)
            if cached is not None:
                self._read_again(cached.request.topic_partition)
        super().update(requests, forgotten)
        for key in requests:
            if key in self.partitions:
                self._to_read[key] = self.partitions[key]
        for key in forgotten:
            self._to_read.pop(key, None)

    def fill(
        self, requests: Sequence[tuple[PartitionKey, FetchEntry]], reads: Sequence[PartitionRead]
    ) -> None:
        super().fill(requests, reads)
        self._to_read = dict(self.partitions)

    def begin(self, entries_of: Callable[[Sequence[Sent]], list[FetchEntry]]) -> FollowerFetch:
        """Return the next request: the partitions that may have changed. ``entries_of`` returns
        their requests."""
        self.notice_moves()
        assert len(self._to_read) + len(self._settled) == len(self.partitions)
        sent = list(self._to_read.items())
        self._underway = FollowerFetch(self, sent, entries_of(sent))
        return self._underway

    def respond(self, sent: Sequence[Sent], reads: Sequence[ReadResult]) -> list[int]:
        """Return what ``select_changed`` returns, and settle the partitions whose next read would
        repeat these."""
        self._underway = None
        places = self.select_changed(sent, reads)
        to_read = self._to_read
        for (key, cached), read in zip(sent, reads, strict=True):
            if read.size:
                if to_read.pop(key, None) is not None:
                    to_read[key] = cached  # it moves to the end, as in the whole session
            elif not read.is_urgent:
                self._settle(key, cached, read)
        return places

    # ------------------------------------------------------------------------------------- settling

    def _settle(
        self, key: PartitionKey, cached: CachedPartition[FetchEntry], read: ReadResult
    ) -> None:
        """Leave a partition out from now on, if its next read would be ``read`` again."""
        entry = cached.request
        topic_partition, replica_id = entry.topic_partition, self.replica_id
        partition = self._hosted.get(topic_partition)
        if (
            partition is not None
            and key in self._to_read
            and topic_partition not in self._settled
            and repeated_response(partition, replica_id, entry) is read
            and partition.is_in_sync_at(replica_id, entry.fetch_offset)
        ):
            del self._to_read[key]
            self._settled[topic_partition] = key, partition
            partition.settle(replica_id, self)

    def unsettle(self, partition: Partition) -> None:
        key, _ = self._settled.pop(partition.topic_partition)
        cached = self._to_read[key] = self.partitions[key]
        if self._underway is not None:
            self._underway.add((key, cached), partition)

    def unsettle_all(self) -> None:
        """Read all partitions again."""
        for _, partition in list(self._settled.values()):
            partition.leave(self.replica_id, self)
            self.unsettle(partition)

    def notice_moves(self) -> None:
        """Read all partitions again if a log start has moved."""
        moves = self._log_starts.moves
        if moves != self._moves:
            self._moves = moves
            self.unsettle_all()

    def _read_again(self, topic_partition: TopicPartition) -> None:
        """Read a partition again which the follower names or forgets."""
        if topic_partition in self._settled:
            key, partition = self._settled.pop(topic_partition)
            self._to_read[key] = self.partitions[key]
            partition.leave(self.replica_id, self)
