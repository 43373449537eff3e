"""Replicas of dead brokers on their way out of the ISRs: a slice at a time, others in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from minikafka.controller import state_machines as machines
from minikafka.controller.services import Tools
from minikafka.core.controller.events import ControllerEvent, DeadReplicasLeave
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.ports import Clock, TimerHandle

# Brokers that lead and follow anew by the election before are to have done so.
PAUSE_MS = 100


class LeavingReplicas:
    """A broker that dies leaves thousands of ISRs in which others lead: that is written when there
    are leaders again, and keeps nobody waiting who wants something else of the controller. Kafka
    does it within the event.

    Who decides by the states of replicas, or brings a broker back, calls ``finish`` before.
    Raises ``ControllerMoved``."""

    def __init__(self, tools: Tools, clock: Clock, put: Callable[[ControllerEvent], None]) -> None:
        self._tools = tools
        self._clock = clock
        self._put = put
        self._waiting: dict[PartitionAndReplica, None] = {}  # as a set that keeps its order
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def leave(self, replicas: Sequence[PartitionAndReplica]) -> bool:
        """Take replicas Offline; whether that was done with any at once. If a slice is full of
        those that may wait, they do."""
        later = [replica for replica in replicas if self._may_wait(replica)]
        if len(later) <= machines.SLICE:
            later = []
        waiting = frozenset(later)
        now = [replica for replica in replicas if replica not in waiting]
        await self._tools.machines.change_replicas(now, ReplicaState.OFFLINE)
        if later:
            self._tools.log.info("dead_replicas_leave_later", replicas=len(later))
            self._waiting.update(dict.fromkeys(later))
            self._call_later()
        return bool(now)

    def _may_wait(self, replica: PartitionAndReplica) -> bool:
        """Its broker is dead and somebody else leads, with the replica in the ISR. A reassignment
        or deletion would go by its state."""
        context, partition = self._tools.context, replica.topic_partition
        known = context.leadership.get(partition)
        return (
            known is not None
            and replica.replica not in context.brokers
            and replica.replica in known.leader_and_isr.isr
            and context.is_replica_online(known.leader_and_isr.leader, partition)
            and partition not in context.partitions_being_reassigned
            and not context.is_queued_for_deletion(partition.topic)
        )

    def _call_later(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(PAUSE_MS, self._due)

    def _due(self) -> None:
        self._timer = None
        self._put(DeadReplicasLeave())

    async def go_on(self) -> None:
        """The next slice."""
        await self._step()
        if self._waiting:
            self._call_later()

    async def finish(self) -> None:
        """All that wait, now."""
        while self._waiting:
            await self._step()

    async def _step(self) -> None:
        context = self._tools.context
        some = list(islice(self._waiting, machines.SLICE))
        for replica in some:
            del self._waiting[replica]
        there = [
            replica
            for replica in some
            if replica.replica in context.assignment(replica.topic_partition).replicas
        ]
        await self._tools.machines.change_replicas(there, ReplicaState.OFFLINE)

    def clear(self) -> None:
        """Somebody else decides now, and finds them in the ISRs."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
