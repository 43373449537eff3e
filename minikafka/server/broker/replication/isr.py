"""ISR changes of the partitions led by this broker: shrinking, writing, notifying.

A ``Partition`` proposes a change of its ISR. Until the outcome of the change is known, the high
watermark waits for the old members and the new ones. ``IsrMaintenance`` does the asynchronous part:
it checks for lagging followers, has proposals written by the controller or in ZooKeeper
(``IsrWrites``), reports the outcomes to the partitions, and creates the znodes that notify the
controller of what it has not written.

Leaders write their ISRs by AlterPartition at the controller, or into the state znodes.
AlterPartition needs ``inter.broker.protocol.version`` 2.7 or newer and a controller that serves it.
Otherwise the leader writes the state znode on the condition of its version, and
``/isr_change_notification`` announces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minikafka.core.replication.isr_outcomes import (
    IsrFailed,
    IsrLost,
    IsrOutcome,
    IsrWithdrawn,
    IsrWritten,
    outcome_of,
)
from minikafka.core.replication.partition_state import LeadershipState, leader_and_isr
from minikafka.kernel.cluster import (
    ZERO_UUID,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth, TimerHandle
from minikafka.kernel.slices import Slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrMember,
)
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.zookeeper.store import ZkStore

# Versions of AlterPartition: the last that names topics, the last of all, and the first whose ISR
# has broker epochs, which a cluster with ZooKeeper does not check (KIP-903).
LAST_VERSION_BY_NAME: Final = 1
LAST_VERSION: Final = 3
FIRST_VERSION_WITH_EPOCHS: Final = 3
# One request with all its attempts. Then the changes that are still wanted are requested again.
REQUEST_TIMEOUT_MS: Final = 30_000


class IsrChange(NamedTuple):
    """An ISR that the leader of a partition has proposed: the new state, with the version that it
    replaces. ``topic_id`` is None where the controller has given none."""

    state: LeaderIsrAndControllerEpoch
    topic_id: UUID | None


IsrChanges = Mapping[TopicPartition, IsrChange]


class IsrWrites(Protocol):
    """Writes proposed ISRs. Only one call may be under way."""

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        """Return the outcome of each change."""


class ZnodeIsrWrites:
    """Writes the state znodes (Kafka's ``ZkAlterPartitionManager``)."""

    def __init__(self, store: Callable[[], ZkStore]) -> None:
        self._store = store

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        try:
            versions = await self._store().update_isrs(
                {tp: change.state for tp, change in changes.items()}
            )
        except NoAuth:
            raise
        except CoordinationError as error:
            return dict.fromkeys(changes, IsrFailed(repr(error)))
        return {tp: _znode_outcome(version) for tp, version in versions.items()}


def _znode_outcome(version: int | CoordinationError | None) -> IsrOutcome:
    if isinstance(version, CoordinationError):
        return IsrFailed(repr(version))
    if version is None:
        return IsrLost("the state znode was written or deleted before")
    return IsrWritten(version, is_announced=False)


class ControllerIsrWrites:
    """Requests AlterPartition of the controller (Kafka's ``DefaultAlterPartitionManager``), or
    writes ``otherwise`` if the controller does not serve it.

    The connection is ``controller``'s alone: no other request waits for a slow change. Without
    ``by_id`` topics are requested by name although they have ids, as Kafka does below
    ``inter.broker.protocol.version`` 2.8."""

    def __init__(
        self,
        controller: NodeToController,
        broker_id: int,
        broker_epoch: Callable[[], int],
        by_id: bool,
        otherwise: IsrWrites,
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._by_id = by_id
        self._otherwise = otherwise

    async def write(self, changes: IsrChanges) -> dict[TopicPartition, IsrOutcome]:
        by_id = self._by_id and all(change.topic_id for change in changes.values())

        def request(version: int) -> AlterPartitionRequest:
            return alter_partition(self._broker_id, self._broker_epoch(), changes, version)

        try:
            response: (
                AlterPartitionResponse | None
            ) = await self._controller.request_in_highest_version(
                ApiKey.ALTER_PARTITION,
                LAST_VERSION if by_id else LAST_VERSION_BY_NAME,
                request,
                REQUEST_TIMEOUT_MS,
            )
        except (ConnectionError, TimeoutError) as error:
            return dict.fromkeys(changes, IsrFailed(str(error)))
        if response is None:
            return await self._otherwise.write(changes)
        if response.error_code != ErrorCode.NONE:
            return dict.fromkeys(changes, IsrFailed(ErrorCode(response.error_code).name))
        return outcomes(changes, response)


def alter_partition(
    broker_id: int, broker_epoch: int, changes: IsrChanges, version: int
) -> AlterPartitionRequest:
    """Return the request for some changes. From version 2 on it names topics by their ids."""
    topics: dict[str, AlterPartitionTopic] = {}
    for tp, change in changes.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic_id = change.topic_id or ZERO_UUID
            topic = topics[tp.topic] = AlterPartitionTopic(tp.topic, topic_id)
        topic.partitions.append(_row(tp.partition, change.state.leader_and_isr, version))
    return AlterPartitionRequest(broker_id, broker_epoch, list(topics.values()))


def _row(partition: int, state: LeaderAndIsr, version: int) -> AlterPartitionPartition:
    row = AlterPartitionPartition(
        partition,
        state.leader_epoch,
        leader_recovery_state=state.leader_recovery_state if version > 0 else 0,
        partition_epoch=state.zk_version,
    )
    if version >= FIRST_VERSION_WITH_EPOCHS:
        row.new_isr_with_epochs = [IsrMember(replica) for replica in state.isr]
    else:
        row.new_isr = list(state.isr)
    return row


def outcomes(
    changes: IsrChanges, response: AlterPartitionResponse
) -> dict[TopicPartition, IsrOutcome]:
    """Return the outcome of each change. One that the response does not name has failed."""
    names = {change.topic_id: tp.topic for tp, change in changes.items() if change.topic_id}
    found: dict[TopicPartition, IsrOutcome] = dict.fromkeys(changes, IsrFailed("no result"))
    for topic in response.topics:
        name = topic.topic_name or names.get(topic.topic_id, "")
        for row in topic.partitions:
            tp = TopicPartition(name, row.partition_index)
            change = changes.get(tp)
            if change is not None:
                found[tp] = outcome_of(change.state.leader_and_isr, _result(row))
    return found


def _result(row: AlteredPartition) -> LeaderAndIsr | ErrorCode:
    if row.error_code != ErrorCode.NONE:
        return ErrorCode(row.error_code)
    return LeaderAndIsr(
        row.leader_id,
        row.leader_epoch,
        tuple(row.isr),
        row.partition_epoch,
        row.leader_recovery_state,
    )


WRITES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class IsrConfig:
    """Kafka's ``replica.lag.time.max.ms``, and the constants of its ``ZkAlterPartitionManager``.

    The controller is notified of changes once none was written for ``propagation_quiet_ms``, or
    ``propagation_max_ms`` after the last notification."""

    replica_lag_time_max_ms: int = 30_000
    propagation_check_ms: int = 2_500
    propagation_quiet_ms: int = 5_000
    propagation_max_ms: int = 60_000
    write_retry_ms: int = 100  # doubled with each failure in a row
    write_retry_max_ms: int = 2_000


class IsrMaintenance:
    """Runs three tasks: shrink, write, notify. At most one change per partition waits to be
    written, since a partition proposes one at a time."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        writes: IsrWrites,
        store: Callable[[], ZkStore],
        metrics: Metrics,
        config: IsrConfig,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._writes = writes
        self._store = store
        self._config = config
        self._shrinks = metrics.counter("kafka.server:type=ReplicaManager,name=IsrShrinksPerSec")
        self._expands = metrics.counter("kafka.server:type=ReplicaManager,name=IsrExpandsPerSec")
        self._failures = metrics.counter(
            "kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec"
        )
        self._log = event_log("isr", broker=broker_id)
        self._to_write: dict[TopicPartition, LeadershipState] = {}
        self._work = asyncio.Event()
        self._retry: TimerHandle | None = None
        self._retry_ms = config.write_retry_ms
        self._changed: set[TopicPartition] = set()
        self._last_change_ms = 0
        self._last_announcement_ms = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._last_announcement_ms = self._clock.monotonic_ms()
        self._tasks = [
            tasks.create_task(self._shrink_forever(), name="isr-expiration"),
            tasks.create_task(self._write_forever(), name="isr-writes"),
            tasks.create_task(self._announce_forever(), name="isr-change-propagation"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._retry is not None:
            self._retry.cancel()

    # ------------------------------------------------------------------------------------ decided

    def submit(self, partition: Partition) -> None:
        """Queue the change that ``partition`` has just proposed for the write to ZooKeeper."""
        state = partition.state
        proposed = state.isr.proposed
        assert proposed is not None, "nothing proposed"
        grows = len(proposed) > len(state.isr.committed)
        (self._expands if grows else self._shrinks).mark()
        self._log.info(
            "isr_expanding" if grows else "isr_shrinking",
            partition=str(partition.topic_partition),
            old=state.isr.committed,
            new=proposed,
            high_watermark=partition.high_watermark,
            log_end_offset=partition.log.log_end_offset,
        )
        self._to_write[partition.topic_partition] = state
        self._work.set()

    async def _shrink_all(self) -> None:
        """Propose to remove lagging followers from the ISR of every partition led by this broker,
        in slices: when a broker dies, the others lead thousands that it followed.

        Also advance high watermarks: a caught-up follower outside of the ISR holds the high
        watermark back until it has lagged for too long, which no request indicates."""
        slices, now_ms = Slices(), self._clock.monotonic_ms()
        advanced: list[TopicPartition] = []
        for partition in list(self._hosted):
            if slices.ended():
                self._purgatories.partitions_changed(advanced)
                advanced = []
                await slices.pause()
                now_ms = self._clock.monotonic_ms()
            if self._hosted.get(partition.topic_partition) is not partition:
                continue  # it was stopped between two slices
            partition.maybe_shrink(now_ms)
            if partition.advance_high_watermark(now_ms):
                advanced.append(partition.topic_partition)
        self._purgatories.partitions_changed(advanced)

    async def _shrink_forever(self) -> None:
        while True:
            await self._clock.sleep(max(1, self._config.replica_lag_time_max_ms // 2))
            await self._shrink_all()

    # ------------------------------------------------------------------------------------ written

    async def _write_forever(self) -> None:
        """Write submitted changes. A new change does not wait for the retry of failed ones."""
        while True:
            await self._work.wait()
            self._work.clear()
            if await self._write_all():
                self._retry_ms = self._config.write_retry_ms
            elif self._retry is None:
                self._retry = self._clock.call_later(self._retry_ms, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._retry_ms = min(2 * self._retry_ms, self._config.write_retry_max_ms)
        self._work.set()

    async def _write_all(self) -> bool:
        """Write all submitted changes. False if some writes failed; these changes are retried."""
        waiting, self._to_write = self._to_write, {}
        states, written = iter(waiting.items()), True
        while batch := dict(islice(states, WRITES_AT_ONCE)):
            written &= await self._write(batch)
        return written

    async def _write(self, batch: Mapping[TopicPartition, LeadershipState]) -> bool:
        """Write changes and report the outcomes to the partitions. False if some writes failed;
        these changes are submitted again."""
        current: dict[TopicPartition, LeadershipState] = {}
        changes: dict[TopicPartition, IsrChange] = {}
        for topic_partition, state in batch.items():
            partition = self._proposing(topic_partition, state)
            if partition is not None:
                written = LeaderIsrAndControllerEpoch(leader_and_isr(state), state.controller_epoch)
                current[topic_partition] = state
                changes[topic_partition] = IsrChange(written, partition.topic_id)
        if not current:
            return True
        outcomes = await self._writes.write(changes)
        failed: list[str] = []
        advanced: list[TopicPartition] = []
        for topic_partition, state in current.items():
            outcome = outcomes[topic_partition]
            if isinstance(outcome, IsrFailed):
                failed.append(outcome.error)
                if self._proposing(topic_partition, state) is not None:
                    self._to_write[topic_partition] = state
            elif self._take(topic_partition, state, outcome):
                advanced.append(topic_partition)
        self._purgatories.partitions_changed(advanced)
        if failed:
            self._failures.mark(len(failed))
            self._log.warning("isr_writes_failed", partitions=len(failed), error=failed[0])
        return not failed

    def _take(
        self, topic_partition: TopicPartition, state: LeadershipState, outcome: IsrOutcome
    ) -> bool:
        """Report an outcome to the partition. Returns whether the high watermark moved."""
        now_ms = self._clock.monotonic_ms()
        if isinstance(outcome, IsrWritten) and not outcome.is_announced:
            self._changed.add(topic_partition)
            self._last_change_ms = now_ms
        partition = self._proposing(topic_partition, state)
        if partition is None:
            return False  # a LeaderAndIsr or a StopReplica came first
        if isinstance(outcome, IsrWritten):
            return partition.isr_written(outcome.zk_version, now_ms)
        self._failures.mark()
        if isinstance(outcome, IsrWithdrawn):
            self._log.info("isr_refused", partition=str(topic_partition), reason=outcome.reason)
            return partition.isr_withdrawn(now_ms)
        assert isinstance(outcome, IsrLost)
        partition.isr_refused()
        self._log.info("isr_write_lost_race", partition=str(topic_partition), reason=outcome.reason)
        return False

    def _proposing(
        self, topic_partition: TopicPartition, state: LeadershipState
    ) -> Partition | None:
        """Return the partition if ``state`` still has its current proposal, otherwise None."""
        partition = self._hosted.get(topic_partition)
        if partition is None or partition.state.isr is not state.isr:
            return None
        return partition

    # ---------------------------------------------------------------------------------- announced

    async def announce_once(self) -> None:
        """Notify the controller of the written changes if one of the delays in ``IsrConfig`` has
        passed."""
        now_ms = self._clock.monotonic_ms()
        config = self._config
        if not self._changed or (
            now_ms - self._last_change_ms < config.propagation_quiet_ms
            and now_ms - self._last_announcement_ms < config.propagation_max_ms
        ):
            return
        changed, self._changed = self._changed, set()
        try:
            await self._store().propagate_isr_changes(sorted(changed))
        except NoAuth:
            raise
        except CoordinationError as error:
            self._changed |= changed
            self._log.warning("isr_announcement_failed", error=repr(error))
            return
        self._last_announcement_ms = self._clock.monotonic_ms()

    async def _announce_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.propagation_check_ms)
            await self.announce_once()
