"""Removal of dead brokers' replicas from the ISRs that other brokers lead, in slices.

A broker that dies is in thousands of ISRs whose leaders are alive. Removing it from them is not
urgent: those partitions can be read and written. Kafka removes it from all of them while it handles
the broker's death, and all other events wait. Here the controller first elects leaders for the
partitions that have none. Then it removes the dead replicas in slices, one ``IsrRemovalsDue`` event
each, so that other events are handled in between.

Until a removal is done, the replica's state is still Online although its broker is dead. Code that
decides by replica states, or that brings a broker back, must call ``finish`` first;
``KafkaController`` does so for most events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from minikafka.core.controller.events import ControllerEvent, IsrRemovalsDue
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.server.controller import state_machines as machines
from minikafka.server.controller.services import ControllerServices

# In this pause the brokers apply the LeaderAndIsr requests of the preceding elections.
PAUSE_MS = 100


class IsrRemovals:
    """The replicas that are still to be removed from ISRs. Methods raise ``ControllerMoved``."""

    def __init__(
        self,
        services: ControllerServices,
        clock: Clock,
        put: Callable[[ControllerEvent], None],
    ) -> None:
        self._services = services
        self._clock = clock
        self._put = put
        self._pending: dict[PartitionAndReplica, None] = {}  # an ordered set
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._pending)

    async def take_offline(self, replicas: Sequence[PartitionAndReplica]) -> bool:
        """Take replicas Offline, which removes them from their ISRs. If more than a slice of them
        can be deferred, these are removed later. Return whether any was taken Offline at once."""
        later = [replica for replica in replicas if self._can_be_deferred(replica)]
        if len(later) <= machines.SLICE:
            later = []
        deferred = frozenset(later)
        now = [replica for replica in replicas if replica not in deferred]
        await self._services.machines.change_replicas(now, ReplicaState.OFFLINE)
        if later:
            self._services.log.info("isr_removals_deferred", replicas=len(later))
            self._pending.update(dict.fromkeys(later))
            self._schedule()
        return bool(now)

    def _can_be_deferred(self, replica: PartitionAndReplica) -> bool:
        """Whether the replica's broker is dead, the replica is in the ISR and another broker leads.
        The removal cannot be deferred while the partition is being reassigned or deleted, because
        both decide by replica states."""
        context, partition = self._services.context, replica.topic_partition
        known = context.leadership.get(partition)
        return (
            known is not None
            and replica.replica not in context.brokers
            and replica.replica in known.leader_and_isr.isr
            and context.is_replica_online(known.leader_and_isr.leader, partition)
            and partition not in context.partitions_being_reassigned
            and not context.is_queued_for_deletion(partition.topic)
        )

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(PAUSE_MS, self._due)

    def _due(self) -> None:
        self._timer = None
        self._put(IsrRemovalsDue())

    async def on_removals_due(self) -> None:
        """Remove the next slice, and schedule another one if replicas are left."""
        await self._remove_slice()
        if self._pending:
            self._schedule()

    async def finish(self) -> None:
        """Remove all pending replicas now."""
        while self._pending:
            await self._remove_slice()

    async def _remove_slice(self) -> None:
        context = self._services.context
        batch = list(islice(self._pending, machines.SLICE))
        for replica in batch:
            del self._pending[replica]
        assigned = [
            replica
            for replica in batch
            if replica.replica in context.assignment(replica.topic_partition).replicas
        ]
        await self._services.machines.change_replicas(assigned, ReplicaState.OFFLINE)

    def clear(self) -> None:
        """Forget pending removals at a resignation: the next controller finds the replicas in the
        ISRs."""
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
