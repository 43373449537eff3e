"""The check of positions with new leaders, whose logs may be truncated below them (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minikafka.client.session import ClusterSession
from minikafka.core.client.cluster_view import group_by_leader
from minikafka.core.client.consumer.fetched import ReadPosition
from minikafka.core.client.consumer.positions import Doubt, Positions
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_NO_SUCH_EPOCH = -1


class LogTruncationError(KafkaError):
    """Records that ``poll`` has returned are no longer in the log; ``auto.offset.reset`` is
    none.

    The position is where the log diverges from the returned records. Kafka:
    ``LogTruncationException``.
    """

    def __init__(self, topic_partition: TopicPartition, was_at: int, lost: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{topic_partition}: the log diverges at {was_at - lost}, the position was {was_at}",
        )
        self.topic_partition = topic_partition
        self.divergent_offset = was_at - lost


class TruncationCheck:
    """Sends OffsetForLeaderEpoch to the leaders of positions in doubt, one request each in a
    round.

    With ``resets`` the consumer continues silently where the logs diverge; otherwise ``error``
    is set and raised to the application once.
    """

    def __init__(self, session: ClusterSession, positions: Positions, resets: bool) -> None:
        self.error: KafkaError | None = None
        self.is_running = False
        self._session = session
        self._positions = positions
        self._resets = resets
        self._failures = 0

    async def run(self, doubts: Mapping[TopicPartition, Doubt], done: Callable[[], None]) -> None:
        """Run one round; the caller sets ``is_running`` before.

        Partitions without a result are checked in the next round.
        """
        try:
            groups = group_by_leader(doubts, self._session.metadata.view.leaders)
            settled = 0
            for leader, of_leader in groups.by_leader.items():
                settled += await self._check(leader, of_leader)
            if settled == len(doubts):
                self._failures = 0
            else:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                delay_ms = self._session.backoff_ms(code, self._failures)
                self._failures += 1
                self._session.metadata.request_update()
                await self._session.world.clock.sleep(delay_ms)
        finally:
            self.is_running = False
            done()

    async def _check(self, leader: int, doubts: Mapping[TopicPartition, Doubt]) -> int:
        """Send one request; return how many partitions have a final result."""
        topics = grouped(
            (topic, OffsetForLeaderPartition(index, doubt.leader_epoch, doubt.place.epoch))
            for (topic, index), doubt in doubts.items()
        )
        request = OffsetForLeaderEpochRequest(
            CONSUMER_REPLICA_ID, [OffsetForLeaderTopic(name, rows) for name, rows in topics.items()]
        )
        try:
            response = await self._session.connections.request(leader, request)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                for tp in doubts:
                    self._positions.unvalidated(tp)
                return len(doubts)
            self._session.metadata.note_error(error.code)
            return 0
        count = 0
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.topic, row.partition)
                count += tp in doubts and self._settle(tp, doubts[tp], row)
        return count

    def _settle(self, tp: TopicPartition, doubt: Doubt, row: EpochEndOffset) -> bool:
        code = ErrorCode(row.error_code)
        if code is not ErrorCode.NONE:
            self._session.metadata.note_error(code)
            if not code.retriable:
                self.error = KafkaError(code, str(tp))
            return not code.retriable
        epoch, offset = row.leader_epoch, row.end_offset
        known = epoch != _NO_SUCH_EPOCH and offset >= 0
        position = self._positions.position(tp) if tp in self._positions.assigned else None
        end = ReadPosition(offset, epoch) if known else None
        lost = self._positions.validated(tp, doubt, end)
        if lost and position is not None and not self._resets:
            self.error = LogTruncationError(tp, position, lost)
        return True
