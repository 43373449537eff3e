"""Carries topic deletions through: stop, delete, forget (Kafka's TopicDeletionManager)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka.controller.services import Tools
from minikafka.core.controller import topic_deletion
from minikafka.core.controller.events import TopicDeletionStopReplicaResponseReceived
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica


class TopicDeletions:
    """A deletion waits while a replica's broker is away or its partition is being reassigned, and
    goes on when ``resume_for`` says that this may be over. Raises ``ControllerMoved``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._context = tools.context
        self._log = tools.log

    async def init(self, topics: Sequence[str]) -> None:
        """At failover: take over the list; nothing is told to brokers yet."""
        if not self._tools.config.delete_topic_enable:
            await self._refuse(topics)
            return
        topic_deletion.queue(self._context, topics)
        topic_deletion.halt(self._context, topic_deletion.ineligible_at_failover(self._context))

    async def on_topic_deletion(self) -> None:
        """The list in /admin/delete_topics changed."""
        wanted = await self._tools.store.topic_deletions(self._tools.watches.term)
        unknown = [topic for topic in wanted if topic not in self._context.all_topics]
        if unknown:
            self._log.warning("ignored_deletion_of_unknown_topics", topics=unknown)
            await self._tools.store.delete_topic_deletions(unknown, self._tools.fence)
        topics = [topic for topic in wanted if topic in self._context.all_topics]
        if not self._tools.config.delete_topic_enable:
            await self._refuse(topics)
        elif topics:
            self._log.info("topic_deletion_requested", topics=topics)
            topic_deletion.queue(self._context, topics)
            moving = {tp.topic for tp in self._context.partitions_being_reassigned}
            self.halt(moving.intersection(topics), "topic reassignment in progress")
            await self.go_on()

    async def _refuse(self, topics: Sequence[str]) -> None:
        if topics:
            self._log.info("topic_deletion_is_disabled", topics=topics)
            await self._tools.store.delete_topic_deletions(topics, self._tools.fence)

    async def on_stop_replica_response(
        self, answer: TopicDeletionStopReplicaResponseReceived
    ) -> None:
        """A broker deleted replicas, or could not."""
        failed, deleted = topic_deletion.failed_and_deleted(
            self._context, answer.broker_id, answer.error, answer.partition_errors.items()
        )
        await self.fail(failed)
        if deleted:
            await self._tools.machines.change_replicas(deleted, ReplicaState.DELETION_SUCCESSFUL)
            await self.go_on()

    async def fail(self, replicas: Sequence[PartitionAndReplica]) -> None:
        """These replicas cannot be deleted now: their topics wait (failReplicaDeletion)."""
        doomed, _ = topic_deletion.split_by_deletion(self._context, replicas)
        if not doomed:
            return
        await self._tools.machines.change_replicas(doomed, ReplicaState.DELETION_INELIGIBLE)
        self.halt({r.topic_partition.topic for r in doomed}, "replica deletion failure")
        await self.go_on()

    def halt(self, topics: Iterable[str], reason: str) -> None:
        halted = topic_deletion.halt(self._context, topics)
        if halted:
            self._log.info("topic_deletion_halted", topics=halted, reason=reason)

    async def resume_for(self, topics: Iterable[str]) -> None:
        """What kept these topics from being deleted may be over."""
        if topic_deletion.resume(self._context, topics):
            await self.go_on()

    async def go_on(self) -> None:
        """Do for every waiting topic what can be done now (resumeDeletions)."""
        if not self._tools.config.delete_topic_enable:
            return
        step = topic_deletion.next_step(self._context)
        for topic in step.complete:
            await self._complete(topic)
        await self._tools.machines.change_replicas(step.retry, ReplicaState.OFFLINE)
        if step.start:
            await self._start(step.start)

    async def _start(self, topics: Sequence[str]) -> None:
        """Partitions end, brokers hear of it, replicas stop and are deleted."""
        self._log.info("topic_deletion_started", topics=list(topics))
        machines = self._tools.machines
        unseen = topic_deletion.unseen(self._context, topics)
        ending = [tp for topic in unseen for tp in self._context.partitions_for_topic(topic)]
        await machines.change_partitions(ending, PartitionState.OFFLINE)
        await machines.change_partitions(ending, PartitionState.NON_EXISTENT)
        self._context.topics_with_deletion_started.update(unseen)
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
        """Every replica is deleted: nothing of the topic stays, last of all its wish to go."""
        gone = self._context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
        await self._tools.machines.change_replicas(gone, ReplicaState.NON_EXISTENT)
        await self._tools.store.delete_topic(topic, self._tools.fence)
        self._context.remove_topic(topic)
        self._log.info("topic_deletion_completed", topic=topic)
