"""The committed offsets of one group, those on their way, and which of them have expired."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from minikafka.core.group.records import NO_TIMESTAMP, CommittedOffset
from minikafka.kernel.cluster import TopicPartition


class GroupOffsets:
    """A commit is ``begin`` when its record goes to the log, and then ``complete`` or ``fail``.

    Each offset is kept with where its record lies: of two, the later record counts, however their
    transactions ended. Transactional ones wait by producer until the transaction ends, those on
    their way to the log (``_joining``) included.
    """

    __slots__ = ("_committed", "_joining", "_pending", "_transactions")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, tuple[int, CommittedOffset]] = {}
        self._pending: dict[TopicPartition, CommittedOffset] = {}
        self._transactions: dict[int, dict[TopicPartition, tuple[int, CommittedOffset]]] = {}
        self._joining: dict[int, dict[TopicPartition, CommittedOffset]] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    @property
    def is_empty(self) -> bool:
        """Nothing committed and nothing on its way."""
        return not (self._committed or self.has_pending)

    @property
    def has_pending(self) -> bool:
        return bool(self._pending or self._transactions or self._joining)

    def get(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        found = self._committed.get(topic_partition)
        return None if found is None else found[1]

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """A newer commit may be about to take effect."""
        return (
            topic_partition in self._pending
            or any(topic_partition in offsets for offsets in self._transactions.values())
            or any(topic_partition in offsets for offsets in self._joining.values())
        )

    # -- commits by consumers

    def begin(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._pending.update(offsets)

    def complete(self, topic_partition: TopicPartition, offset: int, new: CommittedOffset) -> None:
        """The record at log offset ``offset`` is replicated. Without effect where the offset was
        deleted meanwhile."""
        if topic_partition in self._pending:
            self.replay(topic_partition, offset, new)
            self.fail(topic_partition, new)

    def fail(self, topic_partition: TopicPartition, new: CommittedOffset) -> None:
        """The record did not get into the log. A later commit may be on its way nevertheless."""
        if self._pending.get(topic_partition) is new:
            del self._pending[topic_partition]

    def replay(self, topic_partition: TopicPartition, offset: int, new: CommittedOffset) -> None:
        known = self._committed.get(topic_partition)
        if known is None or known[0] <= offset:
            self._committed[topic_partition] = (offset, new)

    def remove(self, topic_partition: TopicPartition) -> None:
        self._committed.pop(topic_partition, None)
        self._pending.pop(topic_partition, None)
        for producer_id in list(self._transactions):
            self._leave_transaction(producer_id, topic_partition)

    # -- commits within transactions

    def begin_in_transaction(
        self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        self._joining.setdefault(producer_id, {}).update(offsets)

    def leave_way(
        self, producer_id: int, topic_partition: TopicPartition, new: CommittedOffset
    ) -> None:
        """Its record is in the log, or came to nothing. A later one may be on its way."""
        offsets = self._joining.get(producer_id, {})
        if offsets.get(topic_partition) is new:
            del offsets[topic_partition]
            if not offsets:
                del self._joining[producer_id]

    def replay_in_transaction(
        self,
        producer_id: int,
        topic_partition: TopicPartition,
        offset: int,
        new: CommittedOffset | None,
    ) -> None:
        """``new`` None takes back what the same transaction committed."""
        if new is not None:
            self._transactions.setdefault(producer_id, {})[topic_partition] = (offset, new)
        else:
            self._leave_transaction(producer_id, topic_partition)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The marker is in the log."""
        found = self._transactions.pop(producer_id, {})
        for topic_partition, (offset, new) in found.items() if committed else ():
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
        """Those older than ``retention_ms``, counted from ``since_ms`` or, where that is None, from
        their commit; or past the time that the client asked for. Nothing that is subscribed to, or
        has another commit on its way."""
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
