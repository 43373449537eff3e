"""One partition on this broker: its log, high watermark, role and ISR.

``Partition`` is Kafka's ``kafka.cluster.Partition``. The decisions are functions of
``core/replication``; this class holds the current values and applies the decisions to the log.

No method waits. A change that may complete delayed operations is reported to the caller (mostly by
the return value True), and the caller notifies the purgatories.

Two invariants are asserted at every change, the first also where the high watermark leaves this
class: in a checkpoint and in a Fetch response.

- log start offset <= high watermark <= log end offset. The last stable offset is never above the
  high watermark. Only a truncation that was interrupted by a failing disk may leave the log start
  above the log end for a while.
- the leader epoch and the version of the state znode (Kafka's partition epoch) never decrease while
  the partition is open.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from minikafka.core.log.append import AppendOrigin, LogAppendInfo, UnexpectedAppendOffset
from minikafka.core.log.validation import PreparedBatch
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.core.replication import partition_state as facts
from minikafka.core.replication.follower import EpochEnd
from minikafka.core.replication.partition_state import (
    FollowerState,
    LeadershipState,
    bounded_high_watermark,
    effective_min_isr,
    joined_by,
    leader_high_watermark,
    low_watermark,
    may_join,
    out_of_sync,
    without,
)
from minikafka.kernel.cluster import (
    NO_EPOCH,
    ZERO_UUID,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.storage.log.unified_log import UnifiedLog

UP_TO_HIGH_WATERMARK = -1  # an offset to delete records up to


class Instruction(NamedTuple):
    """The part of a LeaderAndIsr request for one partition. ``topic_id`` is None before version 5
    of the request."""

    topic_partition: TopicPartition
    leader_and_isr: LeaderAndIsr
    assignment: ReplicaAssignment
    controller_epoch: int
    is_new: bool = False
    topic_id: UUID | None = None


NO_RESPONSE: Final[tuple[object, Any]] = (None, None)


class FollowerResponses:
    """The leader's last responses to the followers of one partition, by broker id.

    ``high_watermarks`` has the high watermark in the last response. ``without_records`` has the
    request (the object in the fetch session) and the result of the last Fetch that found no
    records. Most followers repeat that request, and the same result is sent if nothing has changed.
    Both are looked up for thousands of partitions in every Fetch.

    ``announcing`` is true while parked fetches are completed because the high watermark moved (see
    ``HighWatermarkAnnouncer``)."""

    __slots__ = ("_before_announcement", "announcing", "high_watermarks", "without_records")

    def __init__(self) -> None:
        self.announcing = False
        self.high_watermarks: dict[int, int] = {}
        self.without_records: dict[int, tuple[object, Any]] = {}
        self._before_announcement: dict[int, int] = {}

    def clear(self) -> None:
        """Forget all responses, at the start of a leader epoch."""
        self.high_watermarks.clear()
        self.without_records.clear()

    def begin_announcement(self) -> None:
        """Complete every parked fetch of a follower until ``end_announcement``.

        The response to the first one updates ``high_watermarks``, but that fetch may belong to a
        closed connection. So the values at the beginning decide which fetches complete."""
        self.announcing = True
        self._before_announcement = dict(self.high_watermarks)

    def end_announcement(self) -> None:
        self.announcing = False

    def is_announced_to(self, replica_id: int, high_watermark: int) -> bool:
        """Whether the announcement completes a fetch of this replica. Never for consumers."""
        return replica_id >= 0 and self._before_announcement.get(replica_id) != high_watermark

    def lacks(self, replica_id: int, high_watermark: int) -> bool:
        """Whether ``high_watermark`` was not sent to this follower yet. Never for consumers."""
        return replica_id >= 0 and self.high_watermarks.get(replica_id) != high_watermark


class SettledSession(Protocol):
    """A follower's fetch session that reads a partition only after its next change."""

    @property
    def last_used_ms(self) -> int:
        """The time of its last request, which has repeated that of every settled partition."""
        ...

    def unsettle(self, partition: Partition) -> None:
        """Called before the partition changes."""
        ...


class Partition:
    """One replica of a partition, leader or follower (Kafka's ``kafka.cluster.Partition``).

    ``live`` contains the ids of the live brokers. ``submit_isr`` is called after every proposal of
    an ISR change; its outcome is reported by ``isr_written`` or ``isr_refused``. When the high
    watermark changes, or the log is opened or closed, the partition adds itself to ``moved`` and
    sets ``is_moved``, which the reader of that list resets."""

    __slots__ = (
        "_lag_time_max_ms",
        "_live",
        "_log",
        "_min_isr",
        "_moved",
        "_settled",
        "_submit_isr",
        "broker_id",
        "config",
        "followers",
        "high_watermark",
        "is_leader",
        "is_moved",
        "responses",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        lag_time_max_ms: int,
        live: Container[int],
        submit_isr: Callable[[Partition], None],
        moved: list[Partition],
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.topic_id: UUID | None = None
        self.state = LeadershipState()
        self.high_watermark = 0
        self.is_leader = False
        self.is_moved = False
        self.config = TopicConfig()
        self.followers: dict[int, FollowerState] = {}
        self.responses = FollowerResponses()
        self._log: UnifiedLog | None = None
        self._lag_time_max_ms = lag_time_max_ms
        self._live = live
        self._submit_isr = submit_isr
        self._moved = moved
        self._min_isr = 1
        self._settled: dict[int, SettledSession] = {}  # by follower

    # ------------------------------------------------------------------------------------ facts

    @property
    def has_log(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> UnifiedLog:
        """The log. Raises KafkaError(NOT_LEADER_OR_FOLLOWER) before the first role and after
        ``close``."""
        if self._log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no log of {self.topic_partition} here"
            )
        return self._log

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read. No record below it belongs to
        an open transaction, or to one whose marker is not committed. Never above the high
        watermark."""
        log = self._log
        if log is None:
            return self.high_watermark
        return log.last_stable_offset(self.high_watermark)

    @property
    def low_watermark(self) -> int:
        """The smallest log start of all live replicas; -1 while one of them has not fetched yet."""
        return low_watermark(self.log.log_start_offset, self.followers, self._live)

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.state.isr.committed) < self.state.replication_factor

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.state.isr.committed) < self._min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and len(self.state.isr.committed) == self._min_isr

    def accepts_topic_id(self, topic_id: UUID | None) -> bool:
        """Whether a request with this topic id may be served: False only if both ids are known and
        differ."""
        known = self.topic_id
        return (
            topic_id is known  # mostly: to compare two objects takes Python
            or topic_id is None
            or known is None
            or topic_id in (known, ZERO_UUID)
        )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise KafkaError(FENCED_LEADER_EPOCH | UNKNOWN_LEADER_EPOCH) unless the epoch that the
        client sent is the current one (KIP-320). -1 stands for none, and is not checked."""
        if current_leader_epoch in (NO_EPOCH, self.state.leader_epoch):
            return
        if current_leader_epoch < self.state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def readable_log(self, current_leader_epoch: int, leader_only: bool) -> UnifiedLog:
        """Return the log after ``check_epoch``. Raises as ``check_epoch`` and ``log``, and with
        ``leader_only`` KafkaError(NOT_LEADER_OR_FOLLOWER) on a follower."""
        self.check_epoch(current_leader_epoch)
        if leader_only and not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def end_offset_for_epoch(
        self, current_leader_epoch: int, epoch: int, leader_only: bool
    ) -> EpochEnd:
        """Return the end of ``epoch`` in the log, see ``EpochEnd``. Raises as ``readable_log``."""
        log = self.readable_log(current_leader_epoch, leader_only)
        return EpochEnd(*log.end_offset_for_epoch(epoch))

    # ---------------------------------------------------------------------------- settled sessions

    def settle(self, replica_id: int, session: SettledSession) -> None:
        """Call ``session.unsettle`` before the next change that a Fetch of this follower would see,
        in its response or in the state of the follower. It must be in the ISR, and its last fetch
        from the log end. A session of before that had settled reads the partition again."""
        before = self._settled.pop(replica_id, None)
        if before is not None:
            self._has_fetched(replica_id, before)
            before.unsettle(self)
        self._settled[replica_id] = session

    def leave(self, replica_id: int, session: SettledSession) -> None:
        """Forget a session, which reads the partition again."""
        if self._settled.get(replica_id) is session:
            del self._settled[replica_id]
            self._has_fetched(replica_id, session)

    def unsettle(self) -> None:
        """Let all fetch sessions read this partition again. Called before every change."""
        settled, self._settled = self._settled, {}
        for replica_id, session in settled.items():
            self._has_fetched(replica_id, session)
            session.unsettle(self)

    def _has_fetched(self, replica_id: int, session: SettledSession) -> None:
        """Record the last fetch of a follower that was settled: it was caught up then. It may have
        fetched later without this session."""
        follower = self.followers.get(replica_id)
        if follower is not None and follower.last_fetch_ms < session.last_used_ms:
            self.followers[replica_id] = facts.still_caught_up(follower, session.last_used_ms)

    def last_caught_up_ms(self, replica_id: int) -> int:
        """Return when a follower last had all records of this leader."""
        recorded_ms = self.followers[replica_id].last_caught_up_ms
        session = self._settled.get(replica_id)
        return recorded_ms if session is None else max(recorded_ms, session.last_used_ms)

    # -------------------------------------------------------------------------------------- log

    def open_log(self, log: UnifiedLog, checkpointed_high_watermark: int) -> None:
        """Set the partition's log. The high watermark starts at the checkpointed one, limited to
        the range of the log."""
        self.unsettle()
        self._log = log
        self._set_high_watermark(log, self._within(log, checkpointed_high_watermark))

    def replace_log(self, log: UnifiedLog) -> None:
        """Replace the log by its copy in another log directory, after a move."""
        assert self._log is not None
        assert log.log_end_offset == self._log.log_end_offset
        self._log = log
        log.transactions.committed_up_to(self.high_watermark)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        if self._log is not None:
            self._log.config = config.log
        self._min_isr = effective_min_isr(config.min_insync_replicas, self.followers.keys())

    def truncate_to(self, offset: int) -> None:
        """Truncate the log and lower the high watermark. Raises as the log does; then the log may
        be truncated in part."""
        self.unsettle()
        log = self.log
        try:
            log.truncate_to(offset)
        finally:
            self._lower_high_watermark(log)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and start the log at ``offset``. Raises as ``truncate_to``."""
        self.unsettle()
        log = self.log
        try:
            log.truncate_fully_and_start_at(offset)
        finally:
            self._lower_high_watermark(log)

    def close(self) -> None:
        """Give up role and log, after the replica was stopped for deletion or its disk failed."""
        self.unsettle()
        self.state = LeadershipState()
        self.followers = {}
        self.is_leader = False
        self._log = None
        self._note_move()

    # --------------------------------------------------------------------------- high watermark

    def _set_high_watermark(self, log: UnifiedLog, high_watermark: int) -> None:
        assert log.log_start_offset <= high_watermark <= log.log_end_offset, (
            f"{self.topic_partition}: high watermark {high_watermark} outside of "
            f"{log.log_start_offset}..{log.log_end_offset}"
        )
        self._commit_up_to(log, high_watermark)

    def _within(self, log: UnifiedLog, high_watermark: int) -> int:
        return bounded_high_watermark(high_watermark, log.log_start_offset, log.log_end_offset)

    def _lower_high_watermark(self, log: UnifiedLog) -> None:
        """Limit the high watermark to the log after a truncation. A truncation that failed half way
        may have moved the log end below the log start."""
        end = log.log_end_offset
        start = min(log.log_start_offset, end)
        self._commit_up_to(log, bounded_high_watermark(self.high_watermark, start, end))

    def _commit_up_to(self, log: UnifiedLog, high_watermark: int) -> None:
        if self._settled:
            self.unsettle()
        self.high_watermark = high_watermark
        if not self.is_moved:  # mostly it is: spare the call
            self._note_move()
        if log.transactions.unreplicated:
            log.transactions.committed_up_to(high_watermark)

    def _note_move(self) -> None:
        if not self.is_moved:
            self.is_moved = True
            self._moved.append(self)

    def checked_high_watermark(self) -> int:
        """Return the high watermark for a checkpoint or a response, after asserting that it is
        within the log."""
        log, high_watermark = self._log, self.high_watermark
        assert log is not None
        end = log.log_end_offset
        assert log.log_start_offset <= high_watermark <= end or high_watermark == end, (
            f"{self.topic_partition}: high watermark {high_watermark} outside of "
            f"{log.log_start_offset}..{end}"
        )
        return high_watermark

    # ------------------------------------------------------------------------------------- roles

    def _is_outdated(self, leader_and_isr: LeaderAndIsr) -> bool:
        """Whether the instruction has an older version of the state znode than this broker.
        ``Leadership`` has refused older leader epochs before."""
        assert leader_and_isr.leader_epoch >= self.state.leader_epoch, (
            f"{self.topic_partition}: leader epoch {leader_and_isr.leader_epoch} after "
            f"{self.state.leader_epoch}"
        )
        return leader_and_isr.zk_version < self.state.zk_version

    def make_leader(self, instruction: Instruction, now_ms: int) -> bool:
        """Become the leader. True if this broker did not lead before. An instruction with an older
        version of the state znode is ignored."""
        leader_and_isr = instruction.leader_and_isr
        if self._is_outdated(leader_and_isr):
            return False
        self.unsettle()
        log = self.log
        new_leader = not self.is_leader
        self.responses.clear()
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
        """Become a follower. True if the leader epoch is new, so that fetching must start again. An
        instruction with an older version of the state znode is ignored."""
        leader_and_isr = instruction.leader_and_isr
        if self._is_outdated(leader_and_isr):
            return False
        self.unsettle()
        new_epoch = leader_and_isr.leader_epoch > self.state.leader_epoch
        self.followers = {}
        self.state = facts.as_follower(
            leader_and_isr, instruction.assignment, instruction.controller_epoch
        )
        self.is_leader = False
        return new_epoch

    # ------------------------------------------------------------------------------------ leading

    def append_as_leader(
        self,
        records: Buffer,
        acks: int,
        wall_ms: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = NOT_REQUIRED,
        prepared: PreparedBatch | None = None,
        transaction_version: int = 0,
    ) -> tuple[LogAppendInfo, bool]:
        """Append batches to the log. Returns the append info, and whether the high watermark moved,
        as it does without followers in the ISR. For the last three arguments see
        ``UnifiedLog.append_as_leader``.

        Raises KafkaError(NOT_LEADER_OR_FOLLOWER | NOT_ENOUGH_REPLICAS), the log's errors for bad
        batches, and OSError."""
        log = self._log
        if not self.is_leader or log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.state.isr.committed)} replicas in sync, {self._min_isr} required",
            )
        if self._settled:
            self.unsettle()
        epoch = self.state.leader_epoch
        info = log.append_as_leader(
            records, epoch, wall_ms, origin, guard, prepared, transaction_version
        )
        return info, self.advance_high_watermark(now_ms)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark up to the log ends of the replicas that count (see
        ``leader_high_watermark``). True if it moved.

        It does not move while fewer than ``min.insync.replicas`` are in sync (the first half of
        KIP-966, Kafka 3.7+)."""
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
        assert self.high_watermark < advanced, "a leader's high watermark went back"
        self._set_high_watermark(log, advanced)
        return True

    def delete_records(self, offset: int) -> tuple[int, bool]:
        """Move the log start to ``offset``, or to the high watermark for -1. Returns the resolved
        offset, and whether the log start moved.

        Raises KafkaError(NOT_LEADER_OR_FOLLOWER | POLICY_VIOLATION | OFFSET_OUT_OF_RANGE), and
        OSError."""
        log = self._log
        if not self.is_leader or log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not log.config.deletes:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"cleanup.policy is {log.config.cleanup_policy}"
            )
        target = self.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, the high watermark is {self.high_watermark}",
            )
        return target, log.increment_log_start_offset(target)

    def acknowledged(self, required_offset: int) -> ErrorCode | None:
        """Return the outcome of an acks=-1 append whose records end before ``required_offset``;
        None while in-sync replicas lack some of them."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        if len(self.state.isr.maximal) < self._min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Raise KafkaError if the fetching broker is not a replica.

        UNKNOWN_LEADER_EPOCH if it sent an epoch, since then it knows a later assignment than this
        leader. Otherwise NOT_LEADER_OR_FOLLOWER."""
        if replica_id not in self.followers:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if current_leader_epoch == NO_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )

    def record_follower_fetch(
        self, replica_id: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> bool:
        """Record that the follower has the records from ``log_start_offset`` up to
        ``fetch_offset``, and propose to add it to the ISR if it qualifies. True if the high
        watermark moved."""
        before = self.followers[replica_id]
        after = facts.after_fetch(
            before, fetch_offset, log_start_offset, self.log.log_end_offset, now_ms
        )
        self.followers[replica_id] = after
        if replica_id not in self.state.isr.committed:
            self._maybe_expand(replica_id, after)
        return before.log_end_offset != after.log_end_offset and self.advance_high_watermark(now_ms)

    def is_in_sync_at(self, replica_id: int, log_end_offset: int) -> bool:
        """Whether a follower is in the ISR, and its last fetch was from ``log_end_offset``."""
        follower = self.followers.get(replica_id)
        return (
            follower is not None
            and follower.log_end_offset == log_end_offset
            and replica_id in self.state.isr.committed
        )

    def still_caught_up(self, replica_id: int, log_end_offset: int, now_ms: int) -> bool:
        """Record that a follower repeats its last fetch, from the log end. False, without a record,
        if its last fetch was not from ``log_end_offset`` or it is not in the ISR."""
        follower = self.followers[replica_id]
        if follower.log_end_offset != log_end_offset or replica_id not in self.state.isr.committed:
            return False
        self.followers[replica_id] = facts.still_caught_up(follower, now_ms)
        return True

    # ---------------------------------------------------------------------------------------- ISR

    def _maybe_expand(self, replica_id: int, follower: FollowerState) -> None:
        state = self.state
        if state.leader_epoch_start_offset is None:
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
        """Propose to remove the ISR members that have lagged for too long. Returns their ids."""
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
        """Commit the proposed ISR, which was written to ZooKeeper as ``zk_version``. True if that
        moved the high watermark."""
        self.state = facts.commit_isr(self.state, zk_version)
        return self.advance_high_watermark(now_ms)

    def isr_refused(self) -> None:
        """Mark the proposed ISR as lost: the controller wrote the state znode first. Its
        LeaderAndIsr follows."""
        self.state = facts.lose_isr(self.state)

    def isr_withdrawn(self, now_ms: int) -> bool:
        """Forget the proposed ISR, which the controller has refused. True if that moved the high
        watermark."""
        self.state = facts.withdraw_isr(self.state)
        return self.advance_high_watermark(now_ms)

    # ---------------------------------------------------------------------------------- following

    def append_as_follower(self, records: Buffer) -> None:
        """Append the leader's batches with their offsets and epochs. Raises KafkaError and OSError
        as the log does.

        The first batch of an empty log may begin below the fetch offset and contain it. Then the
        log starts with that batch. If deleted records are still on disk, they are dropped first and
        nothing is appended: the log's ``cut_unflushed`` is set, and the follower fetches again
        after the flush."""
        log = self.log
        try:
            log.append_as_follower(records)
        except UnexpectedAppendOffset as error:
            end = log.log_end_offset
            if end != log.log_start_offset or not error.first_offset < end <= error.last_offset:
                raise
            if log.size_bytes > 0:
                self.truncate_fully_and_start_at(end)
                return
            self.truncate_fully_and_start_at(error.first_offset)
            log.append_as_follower(records)

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """Adopt the leader's high watermark, limited to the range of the log. True if it
        changed."""
        log = self.log
        followed = self._within(log, leader_high_watermark)
        if followed == self.high_watermark:
            return False
        self._set_high_watermark(log, followed)
        return True

    def follow_log_start(self, leader_log_start_offset: int) -> bool:
        """Adopt the leader's log start, after its high watermark. True if the log start moved.
        Raises OSError."""
        assert self.high_watermark >= self.log.log_start_offset
        return self.log.increment_log_start_offset(
            min(leader_log_start_offset, self.high_watermark)
        )
