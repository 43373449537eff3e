"""The active controller's copy of the cluster's state (Kafka's ControllerContext)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from heapq import nsmallest
from typing import Any, TypeVar
from uuid import UUID

from minikafka.core.controller.assignment import NO_REPLICAS
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    Broker,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
    topic_id_text,
)

K = TypeVar("K", int, str, TopicPartition, PartitionAndReplica)

INITIAL_CONTROLLER_EPOCH = 1
INITIAL_CONTROLLER_EPOCH_ZK_VERSION = 1


class ControllerContext:
    """Read from ZooKeeper after an election, and then updated event by event.

    Only the controller's event task changes it. Methods that return many items return them sorted,
    so that no decision depends on the order of a set.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Clear everything: before an election, and after a resignation."""
        self.epoch = INITIAL_CONTROLLER_EPOCH - 1
        self.epoch_zk_version = INITIAL_CONTROLLER_EPOCH_ZK_VERSION - 1
        self.correlation_id = 0  # number of the last batch of requests to brokers, from 1
        self.brokers: dict[int, Broker] = {}  # live, also while shutting down
        self.shutting_down_broker_ids: set[int] = set()
        self.all_topics: set[str] = set()
        self.topic_ids: dict[str, UUID] = {}
        self.topic_names: dict[UUID, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.partitions_undergoing_preferred_replica_election: set[TopicPartition] = set()
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    @property
    def fence(self) -> int:
        """The version of ``/controller_epoch`` that every write of this term is conditional on."""
        assert self.epoch_zk_version >= INITIAL_CONTROLLER_EPOCH_ZK_VERSION, "not elected"
        return self.epoch_zk_version

    # ---------------------------------------------------------------------------------- brokers

    def set_brokers(self, brokers: Iterable[Broker]) -> None:
        self.brokers = {broker.id: broker for broker in brokers}

    def add_brokers(self, brokers: Iterable[Broker]) -> None:
        self.brokers.update({broker.id: broker for broker in brokers})

    def remove_brokers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self.brokers.pop(broker_id, None)

    def is_live_broker(self, broker_id: int) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down_broker_ids

    def live_broker_ids(self) -> list[int]:
        return sorted(self.brokers.keys() - self.shutting_down_broker_ids)

    def live_or_shutting_down_broker_ids(self) -> list[int]:
        return sorted(self.brokers)

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False
    ) -> bool:
        online = broker_id in self.brokers if or_shutting_down else self.is_live_broker(broker_id)
        if not online:
            return False
        offline_dirs = self.replicas_on_offline_dirs.get(broker_id)
        return offline_dirs is None or partition not in offline_dirs

    # ------------------------------------------------------------------------ topics, assignment

    def add_topic_id(self, topic: str, topic_id: UUID) -> None:
        """Record a topic's id. Raises ``ValueError`` if the topic has another id, or if the id
        belongs to another topic."""
        known_id = self.topic_ids.get(topic, topic_id)
        known_name = self.topic_names.get(topic_id, topic)
        if known_id != topic_id or known_name != topic:
            raise ValueError(
                f"topic {topic} with id {topic_id}: known are {known_name} with id {known_id}"
            )
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the partition's assignment; an empty one if the partition is unknown."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, NO_REPLICAS)

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def all_partitions(self) -> list[TopicPartition]:
        return list(self.each_partition())

    def each_partition(self) -> Iterator[TopicPartition]:
        """Yield all partitions, sorted; topics may not come or go meanwhile."""
        for topic in sorted(self.assignments):
            yield from self.partitions_for_topic(topic)

    def all_replicas(self) -> Iterator[PartitionAndReplica]:
        """Yield the replicas of all partitions, as ``each_partition`` does."""
        for topic in sorted(self.assignments):
            yield from self.replicas_for_topic(topic)

    def partitions_for_topic(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for p in sorted(self.assignments.get(topic, {}))]

    def partitions_on_broker(self, broker_id: int) -> list[TopicPartition]:
        return sorted(
            TopicPartition(topic, partition)
            for topic, partitions in self.assignments.items()
            for partition, assignment in partitions.items()
            if broker_id in assignment.replicas
        )

    def replicas_on_brokers(self, broker_ids: Collection[int]) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, broker_id)
            for broker_id in sorted(broker_ids)
            for partition in self.partitions_on_broker(broker_id)
        ]

    def replicas_for_topic(self, topic: str) -> list[PartitionAndReplica]:
        return self.replicas_for_partitions(self.partitions_for_topic(topic))

    def replicas_for_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, replica)
            for partition in partitions
            for replica in self.assignment(partition).replicas
        ]

    def remove_topic(self, topic: str) -> None:
        """Remove a topic whose znode is gone, with the states of its partitions and replicas. A
        later topic of the same name then starts without them."""
        for partition in self.partitions_for_topic(topic):
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.partitions_being_reassigned.discard(partition)
            for replica in self.assignment(partition).replicas:
                self.replica_states.pop(PartitionAndReplica(partition, replica), None)
        self.assignments.pop(topic, None)
        self.all_topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_be_deleted

    # ------------------------------------------------------------------------------- leadership

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch for a StopReplica request: the partition's, or, while the topic
        is being deleted, the sentinel that overrides every epoch (KIP-570)."""
        if self.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        known = self.leadership.get(partition)
        return NO_EPOCH if known is None else known.leader_and_isr.leader_epoch

    def partitions_with_leaders(self) -> Iterator[TopicPartition]:
        """Yield the partitions that ever had a leader and are not being deleted, as
        ``each_partition`` does."""
        for partition in self.each_partition():
            if partition in self.leadership and not self.is_queued_for_deletion(partition.topic):
                yield partition

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return sorted(
            partition
            for partition, known in self.leadership.items()
            if not self.is_replica_online(known.leader_and_isr.leader, partition)
            and not self.is_queued_for_deletion(partition.topic)
        )

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Return the replicated partitions that the broker leads and that are not being deleted."""
        return sorted(
            partition
            for partition, known in self.leadership.items()
            if known.leader_and_isr.leader == broker_id
            and not self.is_queued_for_deletion(partition.topic)
            and len(self.assignment(partition).replicas) > 1
        )

    # ----------------------------------------------------------------------------------- states

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: PartitionAndReplica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def partitions_in_states(self, states: Collection[PartitionState]) -> list[TopicPartition]:
        return sorted(tp for tp, state in self.partition_states.items() if state in states)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        return [r for r in self.replicas_for_topic(topic) if self.replica_state(r) is state]

    def any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        return any(self.replica_state(r) is state for r in self.replicas_for_topic(topic))

    def all_replicas_in_state(self, topic: str, state: ReplicaState) -> bool:
        return all(self.replica_state(r) is state for r in self.replicas_for_topic(topic))

    def put_written(
        self, partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
    ) -> None:
        """Record the state that this controller has written to the partition's znode."""
        known = self.leadership.get(partition)
        assert leadership.controller_epoch == self.epoch, "written in another controller's term"
        assert (
            known is None
            or leadership.leader_and_isr.leader_epoch > known.leader_and_isr.leader_epoch
        ), f"{partition}: the leader epoch does not grow: {known} -> {leadership}"
        self.leadership[partition] = leadership

    # ---------------------------------------------------------------------------------- metrics

    def offline_partition_count(self) -> int:
        """Count the partitions without a leader, except those of topics whose deletion has
        begun."""
        return sum(
            state is PartitionState.OFFLINE and tp.topic not in self.topics_with_deletion_started
            for tp, state in self.partition_states.items()
        )

    def preferred_replica_imbalance_count(self) -> int:
        """Count the partitions whose leader is not the first replica of their assignment."""
        return sum(
            not self._has_preferred_leader(partition, known)
            for partition, known in self.leadership.items()
            if not self.is_queued_for_deletion(partition.topic)
        )

    def replicas_to_delete_count(self) -> int:
        """Count the replicas, of topics to be deleted, that are not deleted yet."""
        return sum(
            self.replica_state(r) is not ReplicaState.DELETION_SUCCESSFUL
            for topic in self.topics_to_be_deleted
            for r in self.replicas_for_topic(topic)
        )

    def replicas_ineligible_count(self) -> int:
        """Count the replicas, of topics to be deleted, that cannot be deleted now."""
        return sum(
            self.replica_state(r) is ReplicaState.DELETION_INELIGIBLE
            for topic in self.topics_to_be_deleted
            for r in self.replicas_for_topic(topic)
        )

    def _has_preferred_leader(
        self, partition: TopicPartition, known: LeaderIsrAndControllerEpoch
    ) -> bool:
        assignment = self.assignment(partition)
        if not assignment.replicas:
            return True
        preferred = assignment.replicas[0]
        if preferred in assignment.adding:
            # A replica that is still catching up cannot lead: no imbalance until it is in sync.
            return preferred not in known.leader_and_isr.isr
        return known.leader_and_isr.leader == preferred

    def dump(self, limit: int | None = None) -> Mapping[str, Any]:
        """Return all fields under Kafka's names, as values that ``json.dumps`` accepts. Each list
        and each map has at most ``limit`` entries."""

        def first(items: Iterable[K]) -> list[K]:
            return sorted(items) if limit is None else nsmallest(limit, items)

        partitions = first(TopicPartition(t, p) for t, ps in self.assignments.items() for p in ps)
        return {
            "epoch": self.epoch,
            "epochZkVersion": self.epoch_zk_version,
            "correlationId": self.correlation_id,
            "liveBrokerIdsUnderlying": first(self.brokers),
            "liveBrokersUnderlying": [asdict(self.brokers[i]) for i in first(self.brokers)],
            "shuttingDownBrokerIds": first(self.shutting_down_broker_ids),
            "allTopics": first(self.all_topics),
            "topicIds": {
                topic: topic_id_text(self.topic_ids[topic]) for topic in first(self.topic_ids)
            },
            "partitionReplicaAssignment": {
                str(tp): asdict(self.assignment(tp)) for tp in partitions
            },
            "partitionLeadershipInfo": {
                str(tp): asdict(self.leadership[tp]) for tp in first(self.leadership)
            },
            "partitionStates": {
                str(tp): str(self.partition_states[tp]) for tp in first(self.partition_states)
            },
            "replicaStates": {
                f"{r.topic_partition}/{r.replica}": str(self.replica_states[r])
                for r in first(self.replica_states)
            },
            "partitionsBeingReassigned": [
                str(tp) for tp in first(self.partitions_being_reassigned)
            ],
            "partitionsUndergoingPreferredReplicaElection": [
                str(tp) for tp in first(self.partitions_undergoing_preferred_replica_election)
            ],
            "replicasOnOfflineDirs": {
                broker: [str(tp) for tp in first(self.replicas_on_offline_dirs[broker])]
                for broker in first(self.replicas_on_offline_dirs)
            },
            "topicsToBeDeleted": first(self.topics_to_be_deleted),
            "topicsWithDeletionStarted": first(self.topics_with_deletion_started),
            "topicsIneligibleForDeletion": first(self.topics_ineligible_for_deletion),
        }
