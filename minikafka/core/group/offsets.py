"""The offsets of one group: committed, pending, or part of an open transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from minikafka.core.group.records import NO_TIMESTAMP, CommittedOffset
from minikafka.kernel.cluster import TopicPartition


class GroupOffsets:
    """The offsets of one group, with the log offset of each one's record.

    Of two commits for a partition the one with the later record wins, even if its transaction
    ends first.

    The caller announces a commit with ``begin`` before its record is appended, and settles it
    with ``complete`` or ``fail``. In between the commit is pending.

    A transactional commit is announced with ``begin_in_transaction`` and settled with
    ``settle_in_transaction``. Its replayed record waits in ``_transactions`` for the marker of
    the producer, which decides about all earlier records in the log. A marker may be replayed
    before an earlier record, because appends are not always settled in log order: therefore
    ``_ended`` keeps the markers of a producer while ``_joining`` counts its unsettled commits.
    """

    __slots__ = ("_committed", "_ended", "_joining", "_pending", "_transactions")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, tuple[int, CommittedOffset]] = {}
        self._pending: dict[TopicPartition, list[CommittedOffset]] = {}
        self._transactions: dict[int, dict[TopicPartition, tuple[int, CommittedOffset]]] = {}
        self._joining: dict[int, dict[TopicPartition, int]] = {}
        self._ended: dict[int, list[tuple[int, bool]]] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether there are neither committed nor pending offsets."""
        return not (self._committed or self.has_pending)

    @property
    def has_pending(self) -> bool:
        """Whether a commit is being appended or belongs to an open transaction."""
        return bool(self._pending or self._transactions or self._joining)

    def get(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        """Return the committed offset of a partition, None if there is none."""
        found = self._committed.get(topic_partition)
        return None if found is None else found[1]

    def is_older(self, topic_partition: TopicPartition, end_offset: int) -> bool:
        """Whether there is a committed offset and its record lies before log offset
        ``end_offset``."""
        found = self._committed.get(topic_partition)
        return found is not None and found[0] < end_offset

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """Whether a commit of the partition is pending or part of an open transaction (KIP-447)."""
        return (
            topic_partition in self._pending
            or any(topic_partition in offsets for offsets in self._transactions.values())
            or any(topic_partition in offsets for offsets in self._joining.values())
        )

    def everything(self) -> list[TopicPartition]:
        """Return each partition with a committed, pending or transactional offset, once."""
        places: list[Iterable[TopicPartition]] = [self._committed, self._pending]
        places += self._transactions.values()
        places += self._joining.values()
        return list(dict.fromkeys(tp for place in places for tp in place))

    # -- commits by consumers

    def begin(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Announce commits whose records are about to be appended: they are pending from now on."""
        for topic_partition, new in offsets.items():
            self._pending.setdefault(topic_partition, []).append(new)

    def complete(self, topic_partition: TopicPartition, offset: int, new: CommittedOffset) -> None:
        """Settle a pending commit whose record at log offset ``offset`` is replicated.

        No effect if the partition's offset was deleted while the commit was pending.
        """
        if self._was_pending(topic_partition, new):
            self.replay(topic_partition, offset, new)

    def fail(self, topic_partition: TopicPartition, new: CommittedOffset) -> None:
        """Settle a pending commit whose append has failed.

        Other commits of the partition stay pending. (Kafka drops an earlier one, although its
        record is in the log and is acknowledged.)
        """
        self._was_pending(topic_partition, new)

    def _was_pending(self, topic_partition: TopicPartition, new: CommittedOffset) -> bool:
        pending = self._pending.pop(topic_partition, [])
        others = [other for other in pending if other is not new]
        if others:
            self._pending[topic_partition] = others
        return len(others) < len(pending)

    def replay(self, topic_partition: TopicPartition, offset: int, new: CommittedOffset) -> None:
        """Apply a commit from the log, unless a later record of the partition has been applied."""
        known = self._committed.get(topic_partition)
        if known is None or known[0] <= offset:
            self._committed[topic_partition] = (offset, new)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Delete the partition's offset: committed, pending and transactional."""
        self._committed.pop(topic_partition, None)
        self._pending.pop(topic_partition, None)
        for producer_id in list(self._transactions):
            self._leave_transaction(producer_id, topic_partition)

    # -- commits within transactions

    def awaits(self, producer_id: int) -> bool:
        """Whether a marker of the producer would decide about offsets of this group."""
        return producer_id in self._transactions or producer_id in self._joining

    def begin_in_transaction(
        self, producer_id: int, topic_partitions: Iterable[TopicPartition]
    ) -> None:
        """Announce commits of a transaction whose records are about to be appended."""
        joining = self._joining.setdefault(producer_id, {})
        for topic_partition in topic_partitions:
            joining[topic_partition] = joining.get(topic_partition, 0) + 1

    def settle_in_transaction(self, producer_id: int, topic_partition: TopicPartition) -> None:
        """Settle an announced commit: its record was replayed, or its append has failed."""
        joining = self._joining[producer_id]
        joining[topic_partition] -= 1
        if not joining[topic_partition]:
            del joining[topic_partition]
        if not joining:
            del self._joining[producer_id]
            self._ended.pop(producer_id, None)

    def replay_in_transaction(
        self,
        producer_id: int,
        topic_partition: TopicPartition,
        offset: int,
        new: CommittedOffset | None,
    ) -> None:
        """Apply the record of a transactional commit at log offset ``offset``.

        The offset takes effect if a commit marker behind it is or will be replayed. A tombstone
        (``new`` is None) removes the offset that the same transaction committed before.
        """
        if new is None:
            self._leave_transaction(producer_id, topic_partition)
            return
        for marker_offset, committed in self._ended.get(producer_id, ()):
            if offset < marker_offset:
                if committed:
                    self.replay(topic_partition, offset, new)
                return
        waiting = self._transactions.setdefault(producer_id, {})
        if waiting.get(topic_partition, (-1, new))[0] <= offset:
            waiting[topic_partition] = (offset, new)

    def end_transaction(self, producer_id: int, marker_offset: int, committed: bool) -> None:
        """Apply the marker at ``marker_offset`` to the producer's records before it in the log."""
        if producer_id in self._joining:
            self._ended.setdefault(producer_id, []).append((marker_offset, committed))
        for topic_partition, (offset, new) in list(self._transactions.get(producer_id, {}).items()):
            if offset < marker_offset:
                self._leave_transaction(producer_id, topic_partition)
                if committed:
                    self.replay(topic_partition, offset, new)

    def _leave_transaction(self, producer_id: int, topic_partition: TopicPartition) -> None:
        offsets = self._transactions.get(producer_id, {})
        offsets.pop(topic_partition, None)
        if not offsets:
            self._transactions.pop(producer_id, None)

    # -- expiry

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since_ms: int | None,
        subscribed: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Return the partitions whose committed offset is older than ``retention_ms``.

        The age counts from ``since_ms`` or, if that is None, from the commit. If the client
        requested a retention, that one applies. Offsets of ``subscribed`` topics and offsets
        with a pending commit do not expire.
        """
        return [
            topic_partition
            for topic_partition, (_, committed) in self._committed.items()
            if topic_partition.topic not in subscribed
            and topic_partition not in self._pending
            and _is_over(committed, now_ms, retention_ms, since_ms)
        ]


def _is_over(
    committed: CommittedOffset, now_ms: int, retention_ms: int, since_ms: int | None
) -> bool:
    if committed.expire_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_ms
    return now_ms - (committed.commit_ms if since_ms is None else since_ms) >= retention_ms
