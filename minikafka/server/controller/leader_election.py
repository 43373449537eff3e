"""Leader elections on request: through the API, a znode, or the rebalance timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeAlias

from minikafka.core.controller.election import ElectionStrategy, candidates, out_of_balance
from minikafka.core.controller.events import (
    AutoPreferredReplicaLeaderElection,
    ControllerEvent,
    ReplicaLeaderElection,
)
from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import NO_EPOCH, ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import in_slices, run_in_slices
from minikafka.server.controller.services import ControllerServices
from minikafka.server.zookeeper.store import MalformedZnode

TASK_NAME = "auto-leader-rebalance-task"
FIRST_CHECK_MS = 5_000

# The new leader of each partition, or the error that says why it has none.
Elected: TypeAlias = dict[TopicPartition, int | KafkaError]


class ReplicaElections:
    """Runs the elections that were requested (Kafka's onReplicaElection). Methods raise
    ``ControllerMoved``."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._machines = services.machines
        self._log = services.log

    async def on_request(self, request: ReplicaLeaderElection) -> Elected:
        """Run an election that an administrator requested; return a result for each partition."""
        return await self._elect(request.partitions, request.election_type, "AdminClientTriggered")

    async def on_preferred_election_znode(self) -> None:
        """Run the elections in ``/admin/preferred_replica_election``, then delete the znode. A
        malformed znode is also deleted."""
        store = self._services.store
        try:
            requested = await store.preferred_election(self._services.watches.term)
        except MalformedZnode as error:
            self._log.error("preferred_election_malformed", error=str(error))
            requested = set()
        else:
            if not requested:
                return
        context = self._context
        context.partitions_undergoing_preferred_replica_election = set(requested)
        results = await self._elect(requested, ElectionType.PREFERRED, "ZkTriggered")
        for partition, result in results.items():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.ELECTION_NOT_NEEDED:
                self._log.warning(
                    "preferred_election_failed", partition=str(partition), error=str(result)
                )
        await store.delete_preferred_election(self._services.fence)
        context.partitions_undergoing_preferred_replica_election = set()

    async def on_unclean_enabled(self, topic: str | None = None) -> None:
        """Retry elections: unclean ones are now allowed for ``topic``, or by default if it is
        None."""
        self._log.info("unclean_leader_election_enabled", topic=topic)
        await self._machines.trigger_online_partitions(topic)

    async def balance(self) -> None:
        """Elect the preferred leaders of brokers that lead too few of their partitions."""
        percentage = self._services.config.leader_imbalance_per_broker_percentage
        steps = out_of_balance(self._context, percentage)
        found = await run_in_slices(steps)
        for broker_id, partitions in found.items():
            self._log.info("leader_imbalance_found", preferred=broker_id, count=len(partitions))
            await self._elect(partitions, ElectionType.PREFERRED, "AutoTriggered")

    async def _elect(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, trigger: str
    ) -> Elected:
        steps = candidates(self._context, partitions, election_type)
        found = await run_in_slices(steps)
        self._log.info(
            "leader_election_started",
            type=election_type.name,
            trigger=trigger,
            partitions=len(found.electable),
            unknown=len(found.unknown),
            being_deleted=len(found.being_deleted),
        )
        preferred = election_type is ElectionType.PREFERRED
        strategy = ElectionStrategy.PREFERRED if preferred else ElectionStrategy.UNCLEAN
        elected = await self._machines.change_partitions(
            found.electable, PartitionState.ONLINE, strategy
        )
        failed = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        results: Elected = {}
        async for tp in in_slices(found.electable):
            results[tp] = (
                elected[tp].leader
                if tp in elected
                else KafkaError(
                    failed, f"Failed to elect leader for partition {tp} under strategy {strategy}"
                )
            )
        not_needed = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        results.update(dict.fromkeys(found.not_needed, not_needed))
        deleted = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        results.update(dict.fromkeys(found.being_deleted, deleted))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async for tp in in_slices(found.unknown):
            results[tp] = KafkaError(unknown, "The partition does not exist.")
        return results


class RebalanceTimer:
    """Fires 5 s after the controller's election, then one interval after each completed check.

    Each event carries the epoch of the term in which its timer was started. At most one timer task
    runs at a time.
    """

    def __init__(
        self, clock: Clock, interval_ms: int, put: Callable[[ControllerEvent], None]
    ) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._put = put
        self._controller_epoch = NO_EPOCH
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Create timer tasks in ``tasks`` from now on."""
        self._tasks = tasks

    def begin_term(self, controller_epoch: int) -> None:
        """Schedule the first check of a term."""
        self._controller_epoch = controller_epoch
        self._schedule(FIRST_CHECK_MS)

    def restart(self) -> None:
        """Schedule the next check; call it when a check is done."""
        self._schedule(self._interval_ms)

    async def end_term(self) -> None:
        """Cancel the scheduled check."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _schedule(self, delay_ms: int) -> None:
        assert self._tasks is not None, "call start() before begin_term()"
        assert self._task is None or self._task.done(), "two rebalance timers run"
        self._task = self._tasks.create_task(self._wait(delay_ms), name=TASK_NAME)

    async def _wait(self, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms)
        self._put(AutoPreferredReplicaLeaderElection(self._controller_epoch))
