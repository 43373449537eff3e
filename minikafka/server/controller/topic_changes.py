"""The controller's handling of topics: created, removed, given more partitions, changed ISRs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import ApiPartitionReassignment
from minikafka.core.controller.placement import missing_replicas
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.slices import in_slices
from minikafka.server.controller.isr_removal import IsrRemovals
from minikafka.server.controller.reassignment import Reassignments
from minikafka.server.controller.services import ControllerServices
from minikafka.server.controller.topic_deletion import TopicDeletions
from minikafka.server.controller.znode_reads import read_assignments, read_isr_changes, read_topics
from minikafka.server.zookeeper.store import TopicAssignment


class TopicChanges:
    """Handlers that compare the topics in ZooKeeper with the context and act on the difference.
    They raise ``ControllerMoved``."""

    def __init__(self, services: ControllerServices, deletions: TopicDeletions) -> None:
        self._services = services
        self._context = services.context
        self._machines = services.machines
        self._deletions = deletions
        self._log = services.log

    # ----------------------------------------------------------------------------------- events

    async def on_topic_change(self) -> None:
        """Find topics that were created, and topics whose znode is gone."""
        store, watcher = self._services.store, self._services.watches.term
        known = self._context.all_topics
        topics = set(await read_topics(store, watcher, self._log, known))
        deleted = sorted(self._context.all_topics - topics)
        for topic in deleted:
            self._context.remove_topic(topic)
        created = await self.add_topics(sorted(topics - self._context.all_topics))
        self._log.info("topics_changed", new=sorted({tp.topic for tp in created}), deleted=deleted)
        if created:
            await self._on_new_topic_creation(created)

    async def on_partition_modifications(self, topic: str) -> None:
        """Find partitions that were added to a topic. The controller's own writes of an assignment
        also come here, and add none."""
        if topic not in self._context.all_topics:  # its znode was malformed when it was first read
            await self.on_topic_change()
            return
        found = await self._read([topic])
        if topic not in found:
            return
        added = [
            TopicPartition(topic, partition)
            for partition in sorted(found[topic].partitions)
            if not self._context.assignment(TopicPartition(topic, partition)).replicas
        ]
        if not added:
            return
        if self._context.is_queued_for_deletion(topic):
            self._log.warning("added_partitions_reverted", topic=topic, partitions=len(added))
            await self._services.store.set_topic_assignment(
                topic,
                self._context.topic_ids.get(topic),
                dict(self._context.assignments.get(topic, {})),
                self._services.fence,
            )
            return
        for partition in added:
            assignment = found[topic].partitions[partition.partition]
            self._context.set_assignment(partition, assignment)
        await self._on_new_partition_creation(added)

    async def on_isr_change(self) -> list[TopicPartition]:
        """Send the ISRs that leaders have changed to all brokers and delete the notifications.
        Return the partitions."""
        sequences = await self._services.store.isr_changes(self._services.watches.term)
        partitions = await read_isr_changes(self._services.store, sequences, self._log)
        known = sorted(tp for tp in partitions if self._context.assignment(tp).replicas)
        if known:
            await self._machines.leaderships.refresh(known)
            brokers = self._context.live_or_shutting_down_broker_ids()
            self._machines.send_update_metadata(brokers, known)
        await self._services.store.delete_isr_changes(sequences, self._services.fence)
        return known

    # ------------------------------------------------------------------------- into the context

    async def add_topics(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Read and watch these topics and add them to the context; return their partitions."""
        found = await self._read(topics)
        partitions: list[TopicPartition] = []
        async for topic in in_slices(sorted(found), look_every=1):
            self._context.all_topics.add(topic)
            topic_id = await self._topic_id(topic, found)
            if topic_id is not None:
                self._context.add_topic_id(topic, topic_id)
            for partition, assignment in sorted(found[topic].partitions.items()):
                partitions.append(TopicPartition(topic, partition))
                self._context.set_assignment(partitions[-1], assignment)
        return partitions

    async def _read(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        return await read_assignments(
            self._services.store, topics, self._services.watches.term, self._log
        )

    async def _topic_id(self, topic: str, found: Mapping[str, TopicAssignment]) -> UUID | None:
        """Return the topic's id. A topic without one (created before Kafka 2.8, or by a tool) gets
        an id, which is written to its znode; None if the inter-broker protocol has no ids. An id
        that exists is kept in any case, so that a reassignment does not remove it."""
        known = found[topic].topic_id
        if known is not None or not self._services.config.inter_broker_protocol.has_topic_ids:
            return known
        made = UUID(bytes=self._services.entropy.random_bytes(16), version=4)
        await self._services.store.set_topic_assignment(
            topic, made, found[topic].partitions, self._services.fence
        )
        return made

    # ------------------------------------------------------------------------------- call-backs

    async def _on_new_topic_creation(self, partitions: Sequence[TopicPartition]) -> None:
        """Kafka registers watches on the new topics here; ``add_topics`` has armed them already."""
        listed = ",".join(map(str, partitions))
        message = f"New topic creation callback for {listed}"
        self._log.info("topics_created", partitions=len(partitions), message=message)
        await self._on_new_partition_creation(partitions)

    async def _on_new_partition_creation(self, partitions: Sequence[TopicPartition]) -> None:
        """Take the partitions to New, their replicas to New, the partitions to Online (which elects
        the first leaders), and the replicas to Online."""
        listed = ",".join(map(str, partitions))
        message = f"New partition creation callback for {listed}"
        self._log.info("partitions_created", partitions=len(partitions), message=message)
        machines = self._machines
        replicas = self._context.replicas_for_partitions(partitions)
        await machines.change_partitions(partitions, PartitionState.NEW)
        await machines.change_replicas(replicas, ReplicaState.NEW)
        await machines.change_partitions(
            partitions, PartitionState.ONLINE, ElectionStrategy.OFFLINE
        )
        await machines.change_replicas(replicas, ReplicaState.ONLINE)


class InternalTopics:
    """Adds replicas to internal topics that were created while too few brokers were alive.

    Kafka does not create an internal topic before there are enough brokers. Here it is created at
    once, and gets its missing replicas by a reassignment when brokers join. ``widen`` is called
    after a failover and after events that may make it possible. It raises ``ControllerMoved``.
    """

    def __init__(
        self, services: ControllerServices, reassignments: Reassignments, isr_removals: IsrRemovals
    ) -> None:
        self._context = services.context
        self._factors = services.config.internal_replication_factors
        self._reassignments = reassignments
        self._isr_removals = isr_removals
        self._log = services.log

    async def widen(self) -> None:
        """Start a reassignment of the partitions that can have more replicas now. Do nothing while
        removals of dead replicas from ISRs are pending."""
        if self._isr_removals:
            return
        targets = missing_replicas(self._context, self._factors)
        if not targets:
            return
        topics = sorted({partition.topic for partition in targets})
        replicas = max(len(replicas) for replicas in targets.values())
        self._log.info(
            "internal_topics_widened", topics=topics, partitions=len(targets), replicas=replicas
        )
        results = await self._reassignments.on_api(ApiPartitionReassignment(targets))
        refused = {str(tp): str(error) for tp, error in results.items() if error is not None}
        if refused:
            self._log.warning("internal_topics_not_widened", refused=refused)
