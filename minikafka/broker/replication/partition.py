"""One partition as this broker hosts it: its role, and what that does to log and watermarks."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from uuid import UUID

from minikafka.broker.fetch.follower_answers import FollowerAnswers
from minikafka.broker.metadata.topic_configs import TopicConfig
from minikafka.broker.replication.replica import Replica
from minikafka.core.log.append import AppendOrigin, LogAppendInfo, UnexpectedAppendOffset
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.core.replication import partition_state as facts
from minikafka.core.replication.high_watermark import (
    bounded_high_watermark,
    effective_min_isr,
    leader_high_watermark,
    low_watermark,
)
from minikafka.core.replication.isr import joined_by, may_join, out_of_sync, without
from minikafka.core.replication.partition_state import FollowerState, PartitionState
from minikafka.kernel.cluster import (
    NO_EPOCH,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.storage.log.unified_log import UnifiedLog

UP_TO_HIGH_WATERMARK = -1  # an offset to delete records up to


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the controller says about one partition. ``topic_id`` is None before LeaderAndIsr v5."""

    topic_partition: TopicPartition
    leader_and_isr: LeaderAndIsr
    assignment: ReplicaAssignment
    controller_epoch: int
    is_new: bool = False
    topic_id: UUID | None = None


class Partition(Replica):
    """Reads and changes happen in one synchronous breath; waking who waits is the caller's part.

    ``submit_isr`` is told of every ISR change decided here; it has to bring back the outcome by
    ``isr_written`` or ``isr_refused``.
    """

    __slots__ = (
        "_lag_time_max_ms",
        "_live",
        "_min_isr",
        "_submit_isr",
        "answers",
        "config",
        "followers",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        lag_time_max_ms: int,
        live: Container[int],
        submit_isr: Callable[[Partition], None],
    ) -> None:
        super().__init__(topic_partition, broker_id)
        self.config = TopicConfig()
        self.followers: dict[int, FollowerState] = {}
        self.answers = FollowerAnswers()
        self._lag_time_max_ms = lag_time_max_ms
        self._live = live
        self._submit_isr = submit_isr
        self._min_isr = 1

    # ------------------------------------------------------------------------------------ facts

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.state.isr.committed) < self.state.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.state.isr.committed) < self._min_isr

    # -------------------------------------------------------------------------------------- log

    def open_log(self, log: UnifiedLog, checkpointed_high_watermark: int) -> None:
        """Take the log over. Its high watermark starts where the last checkpoint saw it."""
        self._log = log
        self._commit_up_to(
            log,
            bounded_high_watermark(
                checkpointed_high_watermark, log.log_start_offset, log.log_end_offset
            ),
        )

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        if self._log is not None:
            self._log.config = config.log
        self._min_isr = effective_min_isr(config.min_insync_replicas, self.followers.keys())

    # ------------------------------------------------------------------------------------- roles

    def make_leader(self, instruction: Instruction, now_ms: int) -> bool:
        """Lead from now on. True when this broker did not lead before.

        An instruction older than the state znode version known here changes nothing."""
        if instruction.leader_and_isr.zk_version < self.state.zk_version:
            return False
        log = self.log
        leader_and_isr = instruction.leader_and_isr
        new_leader = not self.is_leader
        self.answers.clear()
        new_epoch = leader_and_isr.leader_epoch > self.state.leader_epoch
        if new_epoch:
            log.assign_epoch_start_offset(leader_and_isr.leader_epoch, log.log_end_offset)
        self.followers = facts.elected_followers(
            self.followers,
            self.broker_id,
            instruction.assignment,
            leader_and_isr.isr,
            log.log_end_offset,
            new_leader,
            new_epoch,
            now_ms,
        )
        self.state = facts.as_leader(
            self.state,
            leader_and_isr,
            instruction.assignment,
            instruction.controller_epoch,
            log.log_end_offset,
        )
        self.is_leader = True
        self._min_isr = effective_min_isr(self.config.min_insync_replicas, self.followers.keys())
        self.advance_high_watermark(now_ms)
        return new_leader

    def make_follower(self, instruction: Instruction) -> bool:
        """Follow from now on. True when the leader epoch is new, and copying has to start afresh.

        An instruction older than the state znode version known here changes nothing."""
        leader_and_isr = instruction.leader_and_isr
        if leader_and_isr.zk_version < self.state.zk_version:
            return False
        new_epoch = leader_and_isr.leader_epoch > self.state.leader_epoch
        self.followers = {}
        self.state = facts.as_follower(
            leader_and_isr, instruction.assignment, instruction.controller_epoch
        )
        self.is_leader = False
        return new_epoch

    def close(self) -> None:
        """Serve nothing any more: stopped for deletion, or its disk failed."""
        self.state = PartitionState()
        self.followers = {}
        self.is_leader = False
        self._log = None

    # ------------------------------------------------------------------------------------ leading

    def append_as_leader(
        self,
        records: Buffer,
        acks: int,
        wall_ms: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = NOT_REQUIRED,
    ) -> tuple[LogAppendInfo, bool]:
        """Append, and move the high watermark as far as that alone moves it: whether it moved is
        the second part of the answer.

        Raises KafkaError(NOT_LEADER_OR_FOLLOWER | NOT_ENOUGH_REPLICAS), what the log raises for bad
        batches, and OSError."""
        log = self._log
        if not self.is_leader or log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and len(self.state.isr.committed) < self._min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.state.isr.committed)} in sync, {self._min_isr} wanted",
            )
        info = log.append_as_leader(records, self.state.leader_epoch, wall_ms, origin, guard)
        return info, self.advance_high_watermark(now_ms)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark to what the replicas now allow. True when it moved.

        Not below ``min.insync.replicas``: what is committed by fewer is not promised (KIP-966's
        first half, Kafka 3.7+)."""
        isr, log = self.state.isr, self._log
        if not self.is_leader or log is None or len(isr.committed) < self._min_isr:
            return False
        advanced = end_offset = log.log_end_offset
        if self.followers:
            advanced = leader_high_watermark(
                self.high_watermark,
                end_offset,
                self.followers,
                isr.maximal,
                self._live,
                now_ms,
                self._lag_time_max_ms,
            )
        if advanced == self.high_watermark:
            return False
        assert self.high_watermark < advanced <= end_offset, "high watermark out of bounds"
        self._commit_up_to(log, advanced)
        return True

    @property
    def low_watermark(self) -> int:
        """Where the log starts on every live replica; -1 while one of them has not told."""
        return low_watermark(self.log.log_start_offset, self.followers, self._live)

    def delete_records(self, offset: int) -> tuple[int, bool]:
        """Let the log start at ``offset``, or at the high watermark for -1. Returns the offset that
        was meant, and whether the log start moved.

        Raises KafkaError(NOT_LEADER_OR_FOLLOWER | POLICY_VIOLATION | OFFSET_OUT_OF_RANGE), and
        OSError."""
        log = self._log
        if not self.is_leader or log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not log.config.deletes:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"cleanup.policy is {log.config.cleanup_policy}"
            )
        wanted = self.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, the high watermark is {self.high_watermark}",
            )
        return wanted, log.increment_log_start_offset(wanted)

    def acknowledged(self, required_offset: int) -> ErrorCode | None:
        """How an acks=-1 append up to ``required_offset`` (exclusive) stands: None while replicas
        are missing, else what to answer."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        if len(self.state.isr.maximal) < self._min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Raises KafkaError(UNKNOWN_LEADER_EPOCH | NOT_LEADER_OR_FOLLOWER) for a broker that is no
        replica here; the first when it named an epoch, and so knows more than this leader does."""
        if replica_id not in self.followers:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if current_leader_epoch == NO_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )

    def record_follower_fetch(
        self, replica_id: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> bool:
        """The follower holds everything below ``fetch_offset``, from ``log_start_offset`` on. True
        when that moved the high watermark. The follower may join the ISR by it."""
        before = self.followers[replica_id]
        after = facts.after_fetch(
            before, fetch_offset, log_start_offset, self.log.log_end_offset, now_ms
        )
        self.followers[replica_id] = after
        self._maybe_expand(replica_id, after)
        return before.log_end_offset != after.log_end_offset and self.advance_high_watermark(now_ms)

    def still_caught_up(self, replica_id: int, log_end_offset: int, now_ms: int) -> bool:
        """The member of the ISR that was at the end of the log asks the same again. False when it
        is not at the end any more, or no member: nothing has changed then."""
        follower = self.followers[replica_id]
        if follower.log_end_offset != log_end_offset or replica_id not in self.state.isr.committed:
            return False
        self.followers[replica_id] = facts.still_caught_up(follower, now_ms)
        return True

    # ---------------------------------------------------------------------------------------- ISR

    def _maybe_expand(self, replica_id: int, follower: FollowerState) -> None:
        state = self.state
        if replica_id in state.isr.committed or state.leader_epoch_start_offset is None:
            return
        if replica_id in self._live and may_join(
            state.isr,
            replica_id,
            follower,
            self.high_watermark,
            state.leader_epoch_start_offset,
            self.log.log_start_offset,
        ):
            self.state = facts.propose_isr(state, joined_by(state.isr, replica_id))
            self._submit_isr(self)

    def maybe_shrink(self, now_ms: int) -> tuple[int, ...]:
        """Ask to put out the members that lag for too long; returns who they are."""
        if not self.is_leader:
            return ()
        isr = self.state.isr
        gone = out_of_sync(
            isr,
            self.broker_id,
            self.followers,
            self.log.log_end_offset,
            now_ms,
            self._lag_time_max_ms,
        )
        if gone:
            self.state = facts.propose_isr(self.state, without(isr, gone))
            self._submit_isr(self)
        return gone

    def isr_written(self, zk_version: int, now_ms: int) -> bool:
        """The change in flight is in ZooKeeper. True when the high watermark moved by it."""
        self.state = facts.commit_isr(self.state, zk_version)
        return self.advance_high_watermark(now_ms)

    def isr_refused(self) -> None:
        """Somebody else, the controller, wrote the state first; its LeaderAndIsr is on the way."""
        self.state = facts.lose_isr(self.state)

    # ---------------------------------------------------------------------------------- following

    def append_as_follower(self, records: Buffer) -> LogAppendInfo | None:
        """Append what the leader sent, offsets and epochs as they are. Raises KafkaError and
        OSError as the log does.

        The first batch that an empty log gets may begin before the offset asked for, which lies
        inside it: then the log starts with that batch. None when records that had been deleted
        were dropped for that: to be asked for again, once that is on disk."""
        log = self.log
        try:
            return log.append_as_follower(records)
        except UnexpectedAppendOffset as error:
            end = log.log_end_offset
            if end != log.log_start_offset or not error.first_offset < end <= error.last_offset:
                raise
            if log.size_bytes > 0:
                self.truncate_fully_and_start_at(end)
                return None
            self.truncate_fully_and_start_at(error.first_offset)
            return log.append_as_follower(records)

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """Take over the leader's high watermark as far as the log reaches. True when it changed."""
        log = self.log
        followed = bounded_high_watermark(
            leader_high_watermark, log.log_start_offset, log.log_end_offset
        )
        if followed == self.high_watermark:
            return False
        self._commit_up_to(log, followed)
        return True

    def follow_log_start(self, leader_log_start_offset: int) -> bool:
        """Take over where the leader's log starts, after its high watermark. True when ours moved.
        Raises OSError."""
        assert self.high_watermark >= self.log.log_start_offset
        return self.log.increment_log_start_offset(
            min(leader_log_start_offset, self.high_watermark)
        )
