"""The controller's reassignment of partitions to other replicas (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from minikafka.core.controller import reassignment
from minikafka.core.controller.assignment import target_replicas
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    TopicDeletionStopReplicaResponseReceived,
)
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.server.controller.services import ControllerServices
from minikafka.server.controller.topic_deletion import TopicDeletions
from minikafka.server.zookeeper.store import MalformedZnode

Assignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
Results: TypeAlias = dict[TopicPartition, KafkaError | None]

MAX_ORDERED: Final = 1_000  # reassignments, of which a page then sees the first ones


class Reassignments:
    """Reassignments in progress (Kafka's onPartitionReassignment).

    The twelve steps of Kafka 0.8's description, with KIP-455's names for them:

    1 (U1, U2) write old and new replicas, and which of them are added and removed, to the topic's
      znode and then to the context; (U3) stop and delete replicas that an earlier reassignment was
      adding and that are not part of the new target;
    2 (A1) write a new leader epoch and send LeaderAndIsr to all replicas, so that the leader starts
      to track the new ones;
    3 (A2) take the new replicas to NewReplica;
    4 wait until all target replicas are in the ISR; a watch on the partition's state reports it;
    5 (B1) take the new replicas to OnlineReplica;
    6 (B2) keep only the target replicas in the context;
    7 (B3) elect a leader among them, or write a new epoch for a leader that is one of them;
    8 (B4) take the old replicas to OfflineReplica, which removes them from the ISR;
    9 (B5) delete the old replicas and take them to NonExistentReplica;
    10 (B6) keep only the target replicas in the topic's znode. Until now the znode still names the
      old replicas, so a new controller can continue an unfinished reassignment;
    11 (B7) remove the partition from ``/admin/reassign_partitions``, if it was requested there;
    12 (B8) send UpdateMetadata to all brokers, and resume a deletion of the topic.

    All partitions of a call take each step together. Methods raise ``ControllerMoved``.
    """

    def __init__(self, services: ControllerServices, deletions: TopicDeletions) -> None:
        self._services = services
        self._context = services.context
        self._machines = services.machines
        self._deletions = deletions
        self._log = services.log
        # By broker: replicas to delete whose StopReplica has no response yet. The next controller
        # does not know them, but their brokers see in UpdateMetadata that they hold no replica.
        self._pending_deletions: dict[int, set[TopicPartition]] = {}
        # The last step that was completed, of reassignments in progress. Only pages need it.
        self._steps: dict[TopicPartition, int] = {}

    def facts(self, limit: int) -> list[Mapping[str, Any]]:
        """Return up to ``limit`` reassignments in progress, each with the number of the last step
        that it has completed in this term; 0 before the first. Of more than ``MAX_ORDERED`` any are
        returned: to find the first ones would take too long."""
        moving = self._context.partitions_being_reassigned
        shown = sorted(moving if len(moving) <= MAX_ORDERED else islice(moving, limit))
        return [
            reassignment.progress(self._context, partition, self._steps.get(partition, 0))
            for partition in shown[:limit]
        ]

    # ----------------------------------------------------------------------------------- events

    async def on_api(self, request: ApiPartitionReassignment) -> Results:
        """Start, replace or cancel reassignments; return each partition's error or None. Requests
        for the same partitions in ``/admin/reassign_partitions`` are removed."""
        results: Results = {}
        requested: dict[TopicPartition, ReplicaAssignment] = {}
        async for partition, target in in_slices(request.targets.items()):
            try:
                if target is not None:
                    reassignment.check_target(self._context, partition, target)
                assignment = reassignment.requested_assignment(self._context, partition, target)
                if target is not None and not request.may_change_factor:
                    reassignment.check_replication_factor(self._context, partition, target)
                requested[partition] = assignment
            except KafkaError as error:
                results[partition] = error.with_traceback(None)  # thousands: keep no frames
        await self._remove_requests(requested)
        return results | await self._start(dict(sorted(requested.items())))

    async def on_znode(self) -> list[TopicPartition]:
        """Start the reassignments in ``/admin/reassign_partitions`` that are not in progress yet;
        return the partitions of those that were started."""
        try:
            requests = await self._services.store.reassignment(self._services.watches.term)
        except MalformedZnode as error:
            self._log.error("reassignment_malformed", error=str(error))
            return []
        results: Results = {}
        requested: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in sorted(requests.items()):
            try:
                assignment = reassignment.requested_assignment(self._context, partition, target)
                if assignment != self._context.assignment(partition):
                    reassignment.check_target(self._context, partition, target)
                elif partition in self._context.partitions_being_reassigned:
                    continue
                requested[partition] = assignment
            except KafkaError as error:
                results[partition] = error
        results |= await self._start(requested)
        failed = {str(tp): str(error) for tp, error in results.items() if error is not None}
        if failed:
            self._log.warning("reassignment_refused", failed=failed)
            await self._remove_requests([tp for tp, error in results.items() if error is not None])
        return [tp for tp, error in results.items() if error is None]

    async def on_isr_change(self, partitions: Iterable[TopicPartition]) -> None:
        """Complete the reassignments among ``partitions`` whose target replicas are now in sync."""
        reassigned = self._context.partitions_being_reassigned.intersection(partitions)
        await self._complete(await self._in_sync(sorted(reassigned)))

    def list_in_progress(self, request: ListPartitionReassignments) -> Assignments:
        return reassignment.in_progress(self._context, request.partitions)

    async def resume_all(self) -> None:
        """Continue all reassignments after a failover. A request in the znode replaces the one in
        progress for the same partition."""
        self._pending_deletions.clear()
        self._steps.clear()
        started = await self.on_znode()
        await self._advance(sorted(self._context.partitions_being_reassigned.difference(started)))

    async def resume_on(self, broker_ids: Collection[int]) -> None:
        """Continue reassignments that involve these brokers, which have just started, and send them
        deletions again to which they have not responded."""
        for broker_id in broker_ids:
            pending = sorted(self._pending_deletions.pop(broker_id, set()))
            self._resend_deletions(
                broker_id, [tp for tp in pending if not self._has_replica(tp, broker_id)]
            )
        reassigned = sorted(self._context.partitions_being_reassigned)
        await self._advance(
            [
                tp
                for tp in reassigned
                if not set(self._context.assignment(tp).replicas).isdisjoint(broker_ids)
            ]
        )

    def on_stop_replica_response(self, response: TopicDeletionStopReplicaResponseReceived) -> None:
        """Note the replicas that the broker has deleted."""
        pending = self._pending_deletions.get(response.broker_id)
        if pending is not None:
            pending.difference_update(
                tp for tp, error in response.partition_errors.items() if error is ErrorCode.NONE
            )

    def _resend_deletions(self, broker_id: int, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._log.info(
                "replica_deletions_retried", target_broker=broker_id, count=len(partitions)
            )
            self._pending_deletions[broker_id] = set(partitions)
            self._machines.send_stop_replicas(broker_id, partitions, delete=True)

    def _has_replica(self, partition: TopicPartition, broker_id: int) -> bool:
        return broker_id in self._context.assignment(partition).replicas

    # ------------------------------------------------------------------------ assignment (phase U)

    async def _start(self, requested: Assignments) -> Results:
        """Write the new assignments and take the partitions as far as possible; return each
        partition's error or None."""
        before = {tp: self._context.assignment(tp) for tp in requested}
        dropped = {
            tp: replicas
            for tp, assignment in requested.items()
            if (replicas := reassignment.dropped_replicas(before[tp], assignment))
        }
        results: Results = dict.fromkeys(requested)
        results.update(await self._check_losses(dropped, requested))
        changed = {
            tp: assignment
            for tp, assignment in requested.items()
            if results[tp] is None and assignment != before[tp]
        }
        results.update(await self._write_assignments(changed))
        accepted = [tp for tp, error in results.items() if error is None]
        for partition in accepted:
            self._context.set_assignment(partition, requested[partition])
            self._context.partitions_being_reassigned.add(partition)
        await self._log_step(1, [tp for tp in accepted if tp in changed])
        self._deletions.halt({tp.topic for tp in accepted}, "topic reassignment in progress")
        await self._drop({tp: dropped[tp] for tp in accepted if tp in dropped})
        await self._advance(accepted)
        return results

    async def _check_losses(
        self, dropped: Mapping[TopicPartition, Sequence[int]], requested: Assignments
    ) -> Results:
        """Return an error for each partition that would drop its last replica in sync."""
        read, _ = await self._machines.leaderships.read(sorted(dropped))
        refused: Results = {}
        for partition, state in read.items():
            try:
                reassignment.check_in_sync_replica_remains(
                    self._context, partition, requested[partition], state.leader_and_isr
                )
            except KafkaError as error:
                refused[partition] = error
        return refused

    async def _write_assignments(self, assignments: Assignments) -> Results:
        """Write assignments to the topics' znodes; return errors of topics that do not exist."""
        failed = await self._services.store.change_assignments(assignments, self._services.fence)
        return {
            tp: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, failed[tp.topic])
            for tp in assignments
            if tp.topic in failed
        }

    async def _drop(self, dropped: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Stop and delete these replicas (U3). If one of them is the leader, elect another one
        first, so that the partition keeps a leader."""
        leading = [
            tp
            for tp, replicas in dropped.items()
            if tp in self._context.leadership
            and self._context.leadership[tp].leader_and_isr.leader in replicas
        ]
        await self._machines.change_partitions(
            leading, PartitionState.ONLINE, ElectionStrategy.OFFLINE
        )
        await self._stop(dropped)
        await self._delete(dropped)

    # ------------------------------------------------------------------------ catching up (phase A)

    async def _advance(self, partitions: Sequence[TopicPartition]) -> None:
        """Start replicas that must catch up; complete reassignments whose replicas are in sync."""
        in_sync = await self._in_sync(partitions)
        waiting = [tp for tp in partitions if tp not in in_sync]
        async for partition in in_slices(waiting):
            message = (
                f"New replicas {self._target(partition)} for partition {partition} being "
                "reassigned not yet caught up with the leader"
            )
            self._log.info("new_replicas_lagging", partition=str(partition), message=message)
        led = [tp for tp in waiting if tp in self._context.leadership]
        await self._machines.raise_leader_epochs(led)
        await self._log_step(2, led)
        await self._machines.change_replicas(self._to_start(waiting), ReplicaState.NEW)
        await self._log_step(3, waiting)
        async for partition in in_slices(waiting):
            message = (
                f"Waiting for new replicas {self._target(partition)} for partition {partition} "
                "being reassigned to catch up with the leader"
            )
            self._log.info("new_replicas_awaited", partition=str(partition), message=message)
        await self._complete(in_sync)

    def _target(self, partition: TopicPartition) -> str:
        return ",".join(map(str, target_replicas(self._context.assignment(partition))))

    async def _in_sync(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions whose target replicas are in sync. This reads the partition states
        and arms the watches on them.

        A partition that never had a leader gets one first, among all of its live replicas.
        """
        if not partitions:
            return []
        await self._read(partitions)
        leaderless = [tp for tp in partitions if tp not in self._context.leadership]
        if leaderless:
            await self._machines.change_replicas(self._to_start(leaderless), ReplicaState.NEW)
            await self._machines.change_partitions(
                leaderless, PartitionState.ONLINE, ElectionStrategy.OFFLINE
            )
            await self._read(leaderless)
        return [tp for tp in partitions if self._is_complete(tp)]

    async def _read(self, partitions: Sequence[TopicPartition]) -> None:
        await self._machines.leaderships.refresh(partitions, self._services.watches.term)

    def _to_start(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        return [
            replica
            for tp in partitions
            for replica in reassignment.to_start(self._context, tp, self._context.assignment(tp))
        ]

    def _is_complete(self, partition: TopicPartition) -> bool:
        known = self._context.leadership.get(partition)
        return known is not None and reassignment.is_complete(
            self._context,
            partition,
            self._context.assignment(partition),
            known.leader_and_isr.isr,
        )

    # --------------------------------------------------------------------------- the end (phase B)

    async def _complete(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        await self._log_step(4, partitions)
        before = {tp: self._context.assignment(tp) for tp in partitions}
        added = [PartitionAndReplica(tp, r) for tp in partitions for r in before[tp].adding]
        await self._machines.change_replicas(added, ReplicaState.ONLINE)
        await self._log_step(5, partitions)
        for partition, assignment in before.items():
            target = ReplicaAssignment(target_replicas(assignment))
            self._context.set_assignment(partition, target)
        await self._log_step(6, partitions)
        done = await self._lead_by_target(before)
        await self._log_step(7, done)
        removed = {tp: before[tp].removing for tp in done if before[tp].removing}
        await self._stop(removed)
        await self._log_step(8, done)
        await self._delete(removed)
        await self._log_step(9, done)
        changed = {tp: self._context.assignment(tp) for tp in done}
        await self._write_assignments({tp: a for tp, a in changed.items() if a != before[tp]})
        await self._log_step(10, done)
        await self._remove_fulfilled_requests(changed)
        self._context.partitions_being_reassigned.difference_update(done)
        await self._log_step(11, done)
        brokers = self._context.live_or_shutting_down_broker_ids()
        self._machines.send_update_metadata(brokers, done)
        await self._deletions.resume_for({tp.topic for tp in done})
        await self._log_step(12, done)

    async def _lead_by_target(self, before: Assignments) -> list[TopicPartition]:
        """Elect leaders among the target replicas (B3); return the partitions that have one. The
        others return to step 4: only an old replica may hold all of their records."""
        to_elect = [tp for tp in before if reassignment.must_move_leader(self._context, tp)]
        await self._machines.change_partitions(
            to_elect, PartitionState.ONLINE, ElectionStrategy.REASSIGN
        )
        await self._machines.raise_leader_epochs([tp for tp in before if tp not in to_elect])
        done = []
        for partition, assignment in before.items():
            if assignment.removing and reassignment.must_move_leader(self._context, partition):
                self._context.set_assignment(partition, assignment)
                self._log.warning("reassignment_postponed", partition=str(partition))
            else:
                done.append(partition)
        return done

    # --------------------------------------------------------------------------- removed replicas

    async def _stop(self, removed: Mapping[TopicPartition, Sequence[int]]) -> None:
        await self._machines.change_replicas(_replicas(removed), ReplicaState.OFFLINE)

    async def _delete(self, removed: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Send StopReplica with deletion to the live brokers, without waiting for responses, as in
        Kafka. A broker that has not responded gets the request again when it starts, which Kafka
        does not do."""
        for partition, broker_id in _replicas(removed):
            self._pending_deletions.setdefault(broker_id, set()).add(partition)
        for state in (
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            await self._machines.change_replicas(_replicas(removed), state)

    # ---------------------------------------------------------------------------------- the znode

    async def _remove_requests(self, partitions: Collection[TopicPartition]) -> None:
        """Remove these partitions from ``/admin/reassign_partitions``."""
        if partitions:
            requests = await self._requests_in_znode()
            await self._write_requests(
                requests, {tp: target for tp, target in requests.items() if tp not in partitions}
            )

    async def _remove_fulfilled_requests(self, partitions: Collection[TopicPartition]) -> None:
        """Remove those of these partitions that now have the replicas that the znode requests."""
        if partitions:
            requests = await self._requests_in_znode()
            rest = {
                tp: target
                for tp, target in requests.items()
                if tp not in partitions or target != self._context.assignment(tp).replicas
            }
            await self._write_requests(requests, rest)

    async def _requests_in_znode(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        try:
            return await self._services.store.reassignment()
        except MalformedZnode:
            return {}  # no reassignment was started from it, and ``on_znode`` has logged it

    async def _write_requests(
        self,
        before: Mapping[TopicPartition, tuple[int, ...]],
        rest: dict[TopicPartition, tuple[int, ...]],
    ) -> None:
        """Replace the requests in the znode by ``rest``; an empty ``rest`` deletes the znode."""
        if rest != before:
            await self._services.store.write_reassignment(rest, self._services.fence)
        for partition in sorted(before.keys() - rest.keys()):
            message = (
                f"Removed partition {partition} from the list of reassigned partitions in zookeeper"
            )
            self._log.info(
                "reassignment_request_removed", partition=str(partition), message=message
            )

    async def _log_step(self, number: int, partitions: Collection[TopicPartition]) -> None:
        async for partition in in_slices(partitions):
            assignment = self._context.assignment(partition)
            if partition in self._context.partitions_being_reassigned:
                self._steps[partition] = number
            else:
                self._steps.pop(partition, None)
            self._log.info(
                "reassignment_step_completed",
                step=number,
                partition=str(partition),
                replicas=list(assignment.replicas),
                adding=list(assignment.adding),
                removing=list(assignment.removing),
            )


def _replicas(removed: Mapping[TopicPartition, Sequence[int]]) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(tp, r) for tp, replicas in removed.items() for r in replicas]
