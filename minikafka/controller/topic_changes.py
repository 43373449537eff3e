"""Topics that come, go, grow or change their ISRs, and internal topics that lack replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from minikafka.controller.isr_removal import LeavingReplicas
from minikafka.controller.reassignment import Reassignments
from minikafka.controller.services import Tools
from minikafka.controller.topic_deletion import TopicDeletions
from minikafka.controller.znode_reads import read_assignments, read_isr_changes
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.events import ApiPartitionReassignment
from minikafka.core.controller.internal_replicas import missing_replicas
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import TopicPartition
from minikafka.zookeeper.store import TopicAssignment


class TopicDuties:
    """Called with the topics in ZooKeeper as the truth. Raises ``ControllerMoved``."""

    def __init__(self, tools: Tools, deletions: TopicDeletions) -> None:
        self._tools = tools
        self._context = tools.context
        self._machines = tools.machines
        self._deletions = deletions
        self._log = tools.log

    # ----------------------------------------------------------------------------------- events

    async def on_topic_change(self) -> None:
        """Compare /brokers/topics with what is known."""
        topics = set(await self._tools.store.topics(self._tools.watches.term))
        deleted = sorted(self._context.all_topics - topics)
        for topic in deleted:
            self._context.remove_topic(topic)
        created = await self.learn_topics(sorted(topics - self._context.all_topics))
        self._log.info("topics_changed", new=sorted({tp.topic for tp in created}), deleted=deleted)
        if created:
            await self._on_new_topic_creation(created)

    async def on_partition_modifications(self, topic: str) -> None:
        """The assignment of a topic was written anew: by us, or because it grows."""
        if topic not in self._context.all_topics:  # it was garbled when we met it
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
            self._log.warning("growth_of_doomed_topic_undone", topic=topic, partitions=len(added))
            await self._tools.store.set_topic_assignment(
                topic,
                self._context.topic_ids.get(topic),
                dict(self._context.assignments.get(topic, {})),
                self._tools.fence,
            )
            return
        for partition in added:
            assignment = found[topic].partitions[partition.partition]
            self._context.set_assignment(partition, assignment)
        await self._on_new_partition_creation(added)

    async def on_isr_change(self) -> list[TopicPartition]:
        """Leaders changed their ISRs: all brokers hear of it, then the notices go. Whose they
        were."""
        sequences = await self._tools.store.isr_changes(self._tools.watches.term)
        partitions, unreadable = await read_isr_changes(self._tools.store, sequences)
        for why in unreadable:
            self._log.error("isr_change_unreadable", why=why)
        known = sorted(tp for tp in partitions if self._context.assignment(tp).replicas)
        if known:
            await self.refresh_leadership(known)
            brokers = self._context.live_or_shutting_down_broker_ids()
            self._machines.send_update_metadata(brokers, known)
        await self._tools.store.delete_isr_changes(sequences, self._tools.fence)
        return known

    # ------------------------------------------------------------------------- into the context

    async def learn_topics(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Take new topics into the context, watching each; their partitions."""
        found = await self._read(topics)
        partitions: list[TopicPartition] = []
        for topic in sorted(found):
            self._context.all_topics.add(topic)
            self._context.add_topic_id(topic, await self._topic_id(topic, found))
            for partition, assignment in sorted(found[topic].partitions.items()):
                partitions.append(TopicPartition(topic, partition))
                self._context.set_assignment(partitions[-1], assignment)
        return partitions

    async def refresh_leadership(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the state znodes of these partitions into the context."""
        unreadable = await self._machines.leaderships.refresh(partitions)
        for partition, why in unreadable.items():
            self._log.error("partition_state_unreadable", partition=str(partition), why=why)

    async def _read(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        found, unreadable = await read_assignments(
            self._tools.store, topics, self._tools.watches.term
        )
        for topic, why in unreadable.items():
            self._log.error("topic_unreadable", topic=topic, why=why)
        return found

    async def _topic_id(self, topic: str, found: Mapping[str, TopicAssignment]) -> UUID:
        """The topic's id; a topic from before Kafka 2.8, or made by a tool, gets one now."""
        known = found[topic].topic_id
        if known is not None:
            return known
        made = UUID(bytes=self._tools.entropy.random_bytes(16), version=4)
        await self._tools.store.set_topic_assignment(
            topic, made, found[topic].partitions, self._tools.fence
        )
        return made

    # ------------------------------------------------------------------------------- call-backs

    async def _on_new_topic_creation(self, partitions: Sequence[TopicPartition]) -> None:
        """The topics' own watches are set already: they were armed by the reading."""
        listed = ",".join(map(str, partitions))
        self._log.info(f"New topic creation callback for {listed}")
        await self._on_new_partition_creation(partitions)

    async def _on_new_partition_creation(self, partitions: Sequence[TopicPartition]) -> None:
        """Exactly four steps: partitions New, replicas New, partitions Online, replicas Online."""
        listed = ",".join(map(str, partitions))
        self._log.info(f"New partition creation callback for {listed}")
        machines = self._machines
        replicas = self._context.replicas_for_partitions(partitions)
        await machines.change_partitions(partitions, PartitionState.NEW)
        await machines.change_replicas(replicas, ReplicaState.NEW)
        await machines.change_partitions(
            partitions, PartitionState.ONLINE, ElectionStrategy.OFFLINE
        )
        await machines.change_replicas(replicas, ReplicaState.ONLINE)


class InternalTopics:
    """Looks whenever brokers or topics have come, a reassignment may have ended, and after a
    failover; not before the dead have left the ISRs. Kafka has no such thing: it waits with the
    creation. Raises ``ControllerMoved``."""

    def __init__(
        self, tools: Tools, reassignments: Reassignments, leaving: LeavingReplicas
    ) -> None:
        self._context = tools.context
        self._factors = tools.config.internal_replication_factors
        self._reassignments = reassignments
        self._leaving = leaving
        self._log = tools.log

    async def widen(self) -> None:
        if self._leaving:
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
