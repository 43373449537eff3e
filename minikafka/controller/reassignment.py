"""Moves partitions to other replicas, step by step and resumable (onPartitionReassignment)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.controller.services import Tools
from minikafka.controller.topic_deletion import TopicDeletions
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
from minikafka.zookeeper.store import MalformedZnode

Assignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
Results: TypeAlias = dict[TopicPartition, KafkaError | None]


class Reassignments:
    """The twelve steps of older descriptions, with KIP-455's names for them:

    1 (U1, U2) the topic's znode lists old and new replicas, which come and which go; then memory;
      (U3) what an earlier reassignment was adding, and nobody wants now, goes at once;
    2 (A1) a new leader epoch, so that the leader takes the new replicas over; all hear of it;
    3 (A2) new replicas -> NewReplica;
    4 wait until all target replicas are in sync: a watch on the partition's state tells;
    5 (B1) new replicas -> OnlineReplica;
    6 (B2) memory lists the target replicas alone;
    7 (B3) a leader among these, or a new epoch for the one there is;
    8 (B4) old replicas -> OfflineReplica, out of the ISR;
    9 (B5) old replicas deleted, -> NonExistentReplica;
    10 (B6) the topic's znode lists the target replicas alone. Last, as it is the only place that
      still knows the old ones: a new controller takes up again whatever was not finished;
    11 (B7) the wish in /admin/reassign_partitions goes, if it came that way;
    12 (B8) all brokers hear of it; a deletion of the topic that waited for this goes on.

    Many partitions take each step together. Raises ``ControllerMoved``.
    """

    def __init__(self, tools: Tools, deletions: TopicDeletions) -> None:
        self._tools = tools
        self._context = tools.context
        self._machines = tools.machines
        self._deletions = deletions
        self._log = tools.log
        # Replicas that were told to go and have not answered, by broker. Whoever is the controller
        # next does not know of them; by UpdateMetadata their brokers do.
        self._going: dict[int, set[TopicPartition]] = {}

    # ----------------------------------------------------------------------------------- events

    async def on_api(self, wish: ApiPartitionReassignment) -> Results:
        """Begin, replace or give up reassignments; why some are refused. What the znode wants of
        the same partitions is void from now on."""
        results: Results = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in sorted(wish.targets.items()):
            try:
                if target is not None:
                    reassignment.check_target(self._context, partition, target)
                wanted[partition] = reassignment.wanted_assignment(self._context, partition, target)
            except KafkaError as error:
                results[partition] = error
        await self._remove_wishes(wanted)
        return results | await self._submit(wanted)

    async def on_znode(self) -> list[TopicPartition]:
        """Take up what /admin/reassign_partitions wants and is not under way; which partitions."""
        try:
            wishes = await self._tools.store.reassignment(self._tools.watches.term)
        except MalformedZnode as error:
            self._log.error("reassignment_unreadable", why=str(error))
            return []
        results: Results = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in sorted(wishes.items()):
            try:
                assignment = reassignment.wanted_assignment(self._context, partition, target)
                if assignment != self._context.assignment(partition):
                    reassignment.check_target(self._context, partition, target)
                elif partition in self._context.partitions_being_reassigned:
                    continue
                wanted[partition] = assignment
            except KafkaError as error:
                results[partition] = error
        results |= await self._submit(wanted)
        failed = {str(tp): str(error) for tp, error in results.items() if error is not None}
        if failed:
            self._log.warning("reassignment_refused", failed=failed)
            await self._remove_wishes([tp for tp, error in results.items() if error is not None])
        return [tp for tp, error in results.items() if error is None]

    async def on_isr_change(self, partitions: Iterable[TopicPartition]) -> None:
        """ISRs of these may be complete now."""
        moving = self._context.partitions_being_reassigned.intersection(partitions)
        await self._complete(await self._ready(sorted(moving)))

    def list_under_way(self, wish: ListPartitionReassignments) -> Assignments:
        return reassignment.under_way(self._context, wish.partitions)

    async def resume_all(self) -> None:
        """After a failover. A wish that came meanwhile replaces what is under way."""
        self._going.clear()
        begun = await self.on_znode()
        await self._go_on(sorted(self._context.partitions_being_reassigned.difference(begun)))

    async def resume_on(self, broker_ids: Collection[int]) -> None:
        """These brokers are back: they have to be told again, or were waited for."""
        for broker_id in broker_ids:
            gone = self._going.pop(broker_id, set())
            self._tell_to_go(broker_id, [tp for tp in sorted(gone) if not self._on(tp, broker_id)])
        moving = sorted(self._context.partitions_being_reassigned)
        await self._go_on(
            [
                tp
                for tp in moving
                if not set(self._context.assignment(tp).replicas).isdisjoint(broker_ids)
            ]
        )

    def on_stop_replica_response(self, answer: TopicDeletionStopReplicaResponseReceived) -> None:
        """Replicas that are gone are not told again."""
        going = self._going.get(answer.broker_id)
        if going is not None:
            going.difference_update(
                tp for tp, error in answer.partition_errors.items() if error is ErrorCode.NONE
            )

    def _tell_to_go(self, broker_id: int, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._log.info("removed_replicas_told_again", broker=broker_id, count=len(partitions))
            self._going[broker_id] = set(partitions)
            self._machines.send_stop_replicas(broker_id, partitions, delete=True)

    def _on(self, partition: TopicPartition, broker_id: int) -> bool:
        return broker_id in self._context.assignment(partition).replicas

    # ------------------------------------------------------------------------ assignment (phase U)

    async def _submit(self, wanted: Assignments) -> Results:
        """Write the assignments down and go on from there; why some cannot be."""
        before = {tp: self._context.assignment(tp) for tp in wanted}
        dropped = {
            tp: replicas
            for tp, assignment in wanted.items()
            if (replicas := reassignment.dropped_replicas(before[tp], assignment))
        }
        results: Results = dict.fromkeys(wanted)
        results.update(await self._losses(dropped, wanted))
        changed = {
            tp: assignment
            for tp, assignment in wanted.items()
            if results[tp] is None and assignment != before[tp]
        }
        results.update(await self._write(changed))
        accepted = [tp for tp, error in results.items() if error is None]
        for partition in accepted:
            self._context.set_assignment(partition, wanted[partition])
            self._context.partitions_being_reassigned.add(partition)
        self._step(1, [tp for tp in accepted if tp in changed])
        self._deletions.halt({tp.topic for tp in accepted}, "topic reassignment in progress")
        await self._drop({tp: dropped[tp] for tp in accepted if tp in dropped})
        await self._go_on(accepted)
        return results

    async def _losses(
        self, dropped: Mapping[TopicPartition, Sequence[int]], wanted: Assignments
    ) -> Results:
        """Whose last replica in sync would be dropped."""
        read, _ = await self._machines.leaderships.read(sorted(dropped))
        refused: Results = {}
        for partition, state in read.items():
            try:
                reassignment.check_nothing_is_lost(
                    self._context, partition, wanted[partition], state.leader_and_isr
                )
            except KafkaError as error:
                refused[partition] = error
        return refused

    async def _write(self, assignments: Assignments) -> Results:
        """Into the topics' znodes; why some are not there."""
        failed = await self._tools.store.change_assignments(assignments, self._tools.fence)
        return {
            tp: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, failed[tp.topic])
            for tp in assignments
            if tp.topic in failed
        }

    async def _drop(self, dropped: Mapping[TopicPartition, Sequence[int]]) -> None:
        """U3. One that leads hands over first, so that the partition is not left without."""
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

    async def _go_on(self, partitions: Sequence[TopicPartition]) -> None:
        """Start what has to catch up, complete what has."""
        ready = await self._ready(partitions)
        waiting = [tp for tp in partitions if tp not in ready]
        for partition in waiting:
            self._log.info(
                f"New replicas {self._target(partition)} for partition {partition} being "
                "reassigned not yet caught up with the leader"
            )
        led = [tp for tp in waiting if tp in self._context.leadership]
        await self._machines.raise_leader_epochs(led)
        self._step(2, led)
        await self._machines.change_replicas(self._to_start(waiting), ReplicaState.NEW)
        self._step(3, waiting)
        for partition in waiting:
            self._log.info(
                f"Waiting for new replicas {self._target(partition)} for partition {partition} "
                "being reassigned to catch up with the leader"
            )
        await self._complete(ready)

    def _target(self, partition: TopicPartition) -> str:
        return ",".join(map(str, target_replicas(self._context.assignment(partition))))

    async def _ready(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those whose target replicas are in sync. The states are read, which arms their watches.

        A partition that never had a leader has nothing to catch up with: whoever is alive of old
        and new replicas begins it.
        """
        if not partitions:
            return []
        await self._read(partitions)
        unled = [tp for tp in partitions if tp not in self._context.leadership]
        if unled:
            await self._machines.change_replicas(self._to_start(unled), ReplicaState.NEW)
            await self._machines.change_partitions(
                unled, PartitionState.ONLINE, ElectionStrategy.OFFLINE
            )
            await self._read(unled)
        return [tp for tp in partitions if self._is_complete(tp)]

    async def _read(self, partitions: Sequence[TopicPartition]) -> None:
        unreadable = await self._machines.leaderships.refresh(partitions, self._tools.watches.term)
        for partition, why in unreadable.items():
            self._log.error("partition_state_unreadable", partition=str(partition), why=why)

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
        self._step(4, partitions)
        before = {tp: self._context.assignment(tp) for tp in partitions}
        added = [PartitionAndReplica(tp, r) for tp in partitions for r in before[tp].adding]
        await self._machines.change_replicas(added, ReplicaState.ONLINE)
        self._step(5, partitions)
        for partition, assignment in before.items():
            target = ReplicaAssignment(target_replicas(assignment))
            self._context.set_assignment(partition, target)
        self._step(6, partitions)
        done = await self._lead_by_target(before)
        self._step(7, done)
        removed = {tp: before[tp].removing for tp in done if before[tp].removing}
        await self._stop(removed)
        self._step(8, done)
        await self._delete(removed)
        self._step(9, done)
        changed = {tp: self._context.assignment(tp) for tp in done}
        await self._write({tp: a for tp, a in changed.items() if a != before[tp]})
        self._step(10, done)
        await self._remove_wishes(changed, fulfilled=True)
        self._context.partitions_being_reassigned.difference_update(done)
        self._step(11, done)
        brokers = self._context.live_or_shutting_down_broker_ids()
        self._machines.send_update_metadata(brokers, done)
        await self._deletions.resume_for({tp.topic for tp in done})
        self._step(12, done)

    async def _lead_by_target(self, before: Assignments) -> list[TopicPartition]:
        """B3. Those that target replicas lead now; the others go back to waiting: their old
        replicas may hold what no other does."""
        moving = [tp for tp in before if reassignment.must_move_leader(self._context, tp)]
        await self._machines.change_partitions(
            moving, PartitionState.ONLINE, ElectionStrategy.REASSIGN
        )
        await self._machines.raise_leader_epochs([tp for tp in before if tp not in moving])
        done = []
        for partition, assignment in before.items():
            if assignment.removing and reassignment.must_move_leader(self._context, partition):
                self._context.set_assignment(partition, assignment)
                self._log.warning("reassignment_waits_for_leader", partition=str(partition))
            else:
                done.append(partition)
        return done

    # -------------------------------------------------------------------------------- replicas go

    async def _stop(self, removed: Mapping[TopicPartition, Sequence[int]]) -> None:
        await self._machines.change_replicas(_replicas(removed), ReplicaState.OFFLINE)

    async def _delete(self, removed: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Told to the brokers that are alive; nobody waits for the answer, as in Kafka. Who is
        dead, or dies before it answers, is told again when it is back, which Kafka does not do."""
        for partition, broker_id in _replicas(removed):
            self._going.setdefault(broker_id, set()).add(partition)
        for state in (
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            await self._machines.change_replicas(_replicas(removed), state)

    # ---------------------------------------------------------------------------------- the znode

    async def _remove_wishes(
        self, partitions: Collection[TopicPartition], fulfilled: bool = False
    ) -> None:
        """Take these out of /admin/reassign_partitions; ``fulfilled``: where the wish is what the
        partition has now. The node goes with its last wish."""
        if not partitions:
            return
        try:
            wishes = await self._tools.store.reassignment()
        except MalformedZnode:
            return  # nobody was served by it
        rest = {
            tp: target
            for tp, target in wishes.items()
            if tp not in partitions
            or (fulfilled and target != self._context.assignment(tp).replicas)
        }
        if rest != wishes:
            await self._tools.store.write_reassignment(rest, self._tools.fence)
        for partition in sorted(wishes.keys() - rest.keys()):
            self._log.info(
                f"Removed partition {partition} from the list of reassigned partitions in zookeeper"
            )

    def _step(self, number: int, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            assignment = self._context.assignment(partition)
            self._log.info(
                "reassignment_step",
                step=number,
                partition=str(partition),
                replicas=list(assignment.replicas),
                adding=list(assignment.adding),
                removing=list(assignment.removing),
            )


def _replicas(removed: Mapping[TopicPartition, Sequence[int]]) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(tp, r) for tp, replicas in removed.items() for r in replicas]
