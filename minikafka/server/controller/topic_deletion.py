"""The controller's deletion of topics (Kafka's TopicDeletionManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from minikafka.core.controller import topic_deletion
from minikafka.core.controller.events import TopicDeletionStopReplicaResponseReceived
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.server.controller.services import ControllerServices

MAX_COUNTED = 1_000  # replicas in one look, which other requests wait for


class TopicDeletions:
    """The topics in ``/admin/delete_topics``: stop their replicas, delete these, remove the znodes.

    A deletion is halted while a replica's broker is dead or one of its partitions is being
    reassigned. ``resume_for`` continues it. Methods raise ``ControllerMoved``.
    """

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._log = services.log

    def facts(self, limit: int) -> list[Mapping[str, Any]]:
        """Return up to ``limit`` of the topics to be deleted, with the states of at most
        ``MAX_COUNTED`` of their replicas."""
        facts: list[Mapping[str, Any]] = []
        left = MAX_COUNTED
        for topic in nsmallest(limit, self._context.topics_to_be_deleted):
            facts.append(topic_deletion.progress(self._context, topic, left))
            left -= sum(facts[-1]["replicas"].values())
        return facts

    async def init(self, topics: Sequence[str]) -> None:
        """Add these topics to the context during a failover. Requests to brokers follow later."""
        if not self._services.config.delete_topic_enable:
            await self._refuse(topics)
            return
        topic_deletion.queue(self._context, topics)
        topic_deletion.halt(self._context, topic_deletion.ineligible_at_failover(self._context))

    async def on_topic_deletion(self) -> None:
        """Start the deletions that were added to ``/admin/delete_topics``."""
        listed = await self._services.store.topic_deletions(self._services.watches.term)
        unknown = [topic for topic in listed if topic not in self._context.all_topics]
        if unknown:
            self._log.warning("unknown_topic_deletions_ignored", topics=unknown)
            await self._services.store.delete_topic_deletions(unknown, self._services.fence)
        topics = [topic for topic in listed if topic in self._context.all_topics]
        if not self._services.config.delete_topic_enable:
            await self._refuse(topics)
        elif topics:
            self._log.info("topic_deletion_requested", topics=topics)
            topic_deletion.queue(self._context, topics)
            moving = {tp.topic for tp in self._context.partitions_being_reassigned}
            self.halt(moving.intersection(topics), "topic reassignment in progress")
            await self.resume_deletions()

    async def _refuse(self, topics: Sequence[str]) -> None:
        if topics:
            self._log.info("disabled_topic_deletion_refused", topics=topics)
            await self._services.store.delete_topic_deletions(topics, self._services.fence)

    async def on_stop_replica_response(
        self, response: TopicDeletionStopReplicaResponseReceived
    ) -> None:
        """Note which replicas a broker has deleted, and which it could not delete."""
        failed, deleted = topic_deletion.failed_and_deleted(
            self._context, response.broker_id, response.error, response.partition_errors.items()
        )
        await self.fail(failed)
        if deleted:
            await self._services.machines.change_replicas(deleted, ReplicaState.DELETION_SUCCESSFUL)
            await self.resume_deletions()

    async def fail(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """Halt the deletion of these replicas' topics: the replicas cannot be deleted now
        (failReplicaDeletion). Replicas of other topics are ignored."""
        failed, _ = topic_deletion.split_by_deletion(self._context, replicas)
        if not failed:
            return
        await self._services.machines.change_replicas(failed, ReplicaState.DELETION_INELIGIBLE)
        self.halt({r.topic_partition.topic for r in failed}, "replica deletion failure")
        await self.resume_deletions()

    def halt(self, topics: Iterable[str], reason: str) -> None:
        """Do not start or retry the deletion of these topics until ``resume_for``."""
        halted = topic_deletion.halt(self._context, topics)
        if halted:
            self._log.info("topic_deletion_halted", topics=halted, reason=reason)

    async def resume_for(self, topics: Iterable[str]) -> None:
        """Retry the deletion of those ``topics`` that are to be deleted: the reason of the halt may
        have ended."""
        if topic_deletion.resume(self._context, topics):
            await self.resume_deletions()

    async def resume_deletions(self) -> None:
        """Take every topic to be deleted one step further if possible (resumeDeletions)."""
        if not self._services.config.delete_topic_enable:
            return
        step = topic_deletion.next_step(self._context)
        for topic in step.complete:
            await self._complete(topic)
        await self._services.machines.change_replicas(step.retry, ReplicaState.OFFLINE)
        if step.start:
            await self._start(step.start)

    async def _start(self, topics: Sequence[str]) -> None:
        """Take the partitions to NonExistent, send UpdateMetadata to all brokers, and stop and
        delete the replicas on live brokers."""
        self._log.info("topic_deletion_started", topics=list(topics))
        machines = self._services.machines
        first_time = topic_deletion.not_started(self._context, topics)
        partitions = [
            tp for topic in first_time for tp in self._context.partitions_for_topic(topic)
        ]
        await machines.change_partitions(partitions, PartitionState.OFFLINE)
        await machines.change_partitions(partitions, PartitionState.NON_EXISTENT)
        self._context.topics_with_deletion_started.update(first_time)
        machines.send_update_metadata(
            self._context.live_or_shutting_down_broker_ids(),
            [tp for topic in topics for tp in self._context.partitions_for_topic(topic)],
        )
        replicas = topic_deletion.replicas_to_delete(self._context, topics)
        await machines.change_replicas(replicas.dead, ReplicaState.DELETION_INELIGIBLE)
        await machines.change_replicas(replicas.alive, ReplicaState.OFFLINE)
        await machines.change_replicas(replicas.alive, ReplicaState.DELETION_STARTED)
        self.halt(replicas.halted, "offline replicas")

    async def _complete(self, topic: str) -> None:
        """Remove a topic whose replicas are all deleted from ZooKeeper and from the context. Its
        entry in ``/admin/delete_topics`` is removed last."""
        deleted = self._context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
        await self._services.machines.change_replicas(deleted, ReplicaState.NON_EXISTENT)
        await self._services.store.delete_topic(topic, self._services.fence)
        self._context.remove_topic(topic)
        self._log.info("topic_deletion_completed", topic=topic)
