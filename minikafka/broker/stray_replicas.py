"""Replicas that were reassigned while this broker was away: told by UpdateMetadata, they go."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minikafka.broker.leadership import Stop
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.cluster import LEADER_DURING_DELETE, ZERO_UUID, TopicPartition
from minikafka.kernel.events import event_log
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from minikafka.storage.log_manager import LogManager


class StrayReplicas:
    """A reassignment tells the replicas it removes to go, and waits for none: one whose broker is
    dead, or without its session, does not hear of it. The controller tells it when it is back,
    unless it is another one by then. Else such a replica would stay, as in Kafka: an old leader
    goes on to take records, an old follower to ask, and the disk is never freed.

    When the broker is back, or the controller is another, it is told of all partitions, and so also
    of those that it has no business with any more: by the first UpdateMetadata with partitions.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        deleted: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        """``deleted`` hears of each replica that goes."""
        self._replicas = replicas
        self._logs = logs
        self._deleted = deleted
        self._told_by: tuple[int, int] | None = None
        self._broker_id = replicas.config.broker_id
        self._log = event_log("state-change", broker=self._broker_id)

    async def drop(self, request: UpdateMetadataRequest) -> None:
        """Stop and delete the strays among what ``request`` tells of, in one breath, if it is the
        first of this controller's term and of this broker's registration."""
        teller = (request.controller_epoch, request.broker_epoch)
        if not request.topic_states or teller == self._told_by:
            return
        self._told_by = teller
        strays = [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if self._is_stray(topic.topic_name, topic.topic_id, state)
        ]
        if not strays:
            return
        self._log.warning("stray_replicas", partitions=[str(stray) for stray in strays])
        _, to_delete = self._replicas.leadership.stop([Stop(tp, delete=True) for tp in strays])
        if self._deleted is not None:
            for topic_partition in to_delete:
                self._deleted(topic_partition)
        await self._replicas.delete_logs(to_delete)

    def _is_stray(self, topic: str, topic_id: UUID, state: UpdateMetadataPartitionState) -> bool:
        """A. Of an earlier topic of this name, which has been deleted since: whoever has a replica
        of the new one makes it then.
        B. Of the very same topic, under an older leader epoch, on no broker that has a replica.
        While this one is in the ISR it may still be elected, should the controller die before the
        reassignment ends."""
        topic_partition = TopicPartition(topic, state.partition_index)
        log = self._logs.get(topic_partition)
        if log is None or state.leader == LEADER_DURING_DELETE:
            return False
        if ZERO_UUID in (topic_id, log.topic_id or ZERO_UUID):
            return False
        if log.topic_id != topic_id:  # case A
            return True
        me = self._broker_id
        if me in state.replicas or me in state.isr:
            return False
        partition = self._replicas.hosted.get(topic_partition)  # case B
        if partition is not None:
            return partition.leader_epoch < state.leader_epoch
        return (log.latest_epoch or 0) <= state.leader_epoch
