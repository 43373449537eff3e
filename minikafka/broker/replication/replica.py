"""One replica: its log, the epochs its readers must know, how far they may read; cutting it."""

from __future__ import annotations

from uuid import UUID

from minikafka.core.replication.follower import EpochEndOffset
from minikafka.core.replication.high_watermark import bounded_high_watermark
from minikafka.core.replication.partition_state import PartitionState
from minikafka.kernel.cluster import NO_EPOCH, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.storage.log.unified_log import UnifiedLog


class Replica:
    """What leaders and followers have in common. ``high_watermark`` is the end of what is known to
    be committed."""

    __slots__ = (
        "_log",
        "broker_id",
        "high_watermark",
        "is_leader",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, broker_id: int) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.topic_id: UUID | None = None
        self.state = PartitionState()
        self.high_watermark = 0
        self.is_leader = False
        self._log: UnifiedLog | None = None

    @property
    def has_log(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> UnifiedLog:
        """Raises KafkaError(NOT_LEADER_OR_FOLLOWER) before the first role."""
        if self._log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no log of {self.topic_partition} here"
            )
        return self._log

    def replace_log(self, log: UnifiedLog) -> None:
        """The log has been moved to another directory: ``log`` holds the same."""
        assert self._log is not None
        assert log.log_end_offset == self._log.log_end_offset
        self._log = log
        log.transactions.committed_up_to(self.high_watermark)

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """Up to where read_committed may read: nothing below it belongs to a transaction that is
        open, or whose end is not committed. Never above the high watermark."""
        log = self._log
        if log is None:
            return self.high_watermark
        return log.last_stable_offset(self.high_watermark)

    def accepts_topic_id(self, topic_id: UUID | None) -> bool:
        """False only for two different known ids."""
        if topic_id is None or topic_id == self.topic_id:
            return True
        return topic_id == ZERO_UUID or self.topic_id is None

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises KafkaError(FENCED_LEADER_EPOCH | UNKNOWN_LEADER_EPOCH) unless the caller's epoch
        (-1: none given) is the one known here (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.state.leader_epoch):
            return
        if current_leader_epoch < self.state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def readable_log(self, current_leader_epoch: int, leader_only: bool) -> UnifiedLog:
        """The log, for someone who knows the epoch. Raises KafkaError as ``check_epoch``, and
        NOT_LEADER_OR_FOLLOWER."""
        self.check_epoch(current_leader_epoch)
        if leader_only and not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def end_offset_for_epoch(
        self, current_leader_epoch: int, epoch: int, leader_only: bool
    ) -> EpochEndOffset:
        """Raises as ``readable_log``."""
        log = self.readable_log(current_leader_epoch, leader_only)
        return EpochEndOffset(*log.end_offset_for_epoch(epoch))

    def truncate_to(self, offset: int) -> None:
        """Raises as the log does, which may have been cut by then."""
        log = self.log
        try:
            log.truncate_to(offset)
        finally:
            self._stay_within(log)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """As ``truncate_to``."""
        log = self.log
        try:
            log.truncate_fully_and_start_at(offset)
        finally:
            self._stay_within(log)

    def _stay_within(self, log: UnifiedLog) -> None:
        end = log.log_end_offset
        start = min(log.log_start_offset, end)  # a cut that failed half way has not moved it yet
        self._commit_up_to(log, bounded_high_watermark(self.high_watermark, start, end))

    def _commit_up_to(self, log: UnifiedLog, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        if log.transactions.unreplicated:
            log.transactions.committed_up_to(high_watermark)
