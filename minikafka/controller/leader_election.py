"""Elects leaders on request: by znode, by API, by the clock (onReplicaElection)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeAlias

from minikafka.controller.services import Tools
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import (
    AutoPreferredReplicaLeaderElection,
    ControllerEvent,
    ReplicaLeaderElection,
)
from minikafka.core.controller.leader_balance import candidates, out_of_balance
from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import NO_EPOCH, ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.zookeeper.store import MalformedZnode

TASK_NAME = "auto-leader-rebalance-task"
FIRST_CHECK_MS = 5_000

# The new leader, or why there is none.
Elected: TypeAlias = dict[TopicPartition, int | KafkaError]


class LeaderElections:
    """Raises ``ControllerMoved``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._context = tools.context
        self._machines = tools.machines
        self._log = tools.log

    async def on_request(self, wish: ReplicaLeaderElection) -> Elected:
        """An administrator's wish, unclean or preferred. Each partition has an answer."""
        return await self._elect(wish.partitions, wish.election_type, "AdminClientTriggered")

    async def on_preferred_election_znode(self) -> None:
        """/admin/preferred_replica_election: once done, or if nobody can read it, it goes."""
        store = self._tools.store
        try:
            wanted = await store.preferred_election(self._tools.watches.term)
        except MalformedZnode as error:
            self._log.error("preferred_election_unreadable", why=str(error))
            wanted = set()
        else:
            if not wanted:
                return
        context = self._context
        context.partitions_undergoing_preferred_replica_election = set(wanted)
        results = await self._elect(wanted, ElectionType.PREFERRED, "ZkTriggered")
        for partition, result in results.items():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.ELECTION_NOT_NEEDED:
                self._log.warning(
                    "preferred_election_failed", partition=str(partition), error=str(result)
                )
        await store.delete_preferred_election(self._tools.fence)
        context.partitions_undergoing_preferred_replica_election = set()

    async def on_unclean_enabled(self, topic: str | None = None) -> None:
        """Unclean elections are allowed now, for a topic or by default: whoever waits for a leader
        may get one."""
        self._log.info("unclean_leader_election_enabled", topic=topic)
        await self._machines.trigger_online_partitions(topic)

    async def balance(self) -> None:
        """Give leaderships back to preferred replicas, broker by broker."""
        percentage = self._tools.config.leader_imbalance_per_broker_percentage
        for broker_id, partitions in out_of_balance(self._context, percentage).items():
            self._log.info("leaders_out_of_balance", preferred=broker_id, count=len(partitions))
            await self._elect(partitions, ElectionType.PREFERRED, "AutoTriggered")

    async def _elect(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, trigger: str
    ) -> Elected:
        found = candidates(self._context, partitions, election_type)
        self._log.info(
            "leader_election",
            type=election_type.name,
            trigger=trigger,
            partitions=len(found.electable),
            unknown=len(found.unknown),
            being_deleted=len(found.doomed),
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
        for tp in found.electable:
            results[tp] = (
                elected[tp].leader
                if tp in elected
                else KafkaError(
                    failed, f"Failed to elect leader for partition {tp} under strategy {strategy}"
                )
            )
        needless = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        results.update(dict.fromkeys(found.not_needed, needless))
        doomed = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        results.update(dict.fromkeys(found.doomed, doomed))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for tp in found.unknown:
            results[tp] = KafkaError(unknown, f"The partition {tp} does not exist.")
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
        """``tasks`` owns the timer task."""
        self._tasks = tasks

    def begin_term(self, controller_epoch: int) -> None:
        self._controller_epoch = controller_epoch
        self._schedule(FIRST_CHECK_MS)

    def restart(self) -> None:
        """Schedule the next check, after the last one is done."""
        self._schedule(self._interval_ms)

    async def end_term(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _schedule(self, delay_ms: int) -> None:
        assert self._tasks is not None, "the timer was not started"
        assert self._task is None or self._task.done(), "a second rebalance timer"
        self._task = self._tasks.create_task(self._wait(delay_ms), name=TASK_NAME)

    async def _wait(self, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms)
        self._put(AutoPreferredReplicaLeaderElection(self._controller_epoch))
