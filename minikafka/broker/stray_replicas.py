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

    When the broker is back, or the controller is another, it is told of all partitions, in slices,
    and so also of those that it has no business with any more: by the first word of each.
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
        self._teller: tuple[int, int] | None = None
        self._judged: set[TopicPartition] = set()  # that this teller has told of
        self._broker_id = replicas.config.broker_id
        self._log = event_log("state-change", broker=self._broker_id)

    async def drop(self, request: UpdateMetadataRequest) -> None:
        """Stop and delete, in one breath, the strays among what ``request`` tells of for the first
        time in this controller's term and since this broker's registration."""
        teller = (request.controller_epoch, request.broker_epoch)
        if teller != self._teller:
            self._teller = teller
            self._judged.clear()
        strays: list[TopicPartition] = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                topic_partition = TopicPartition(topic.topic_name, state.partition_index)
                if topic_partition in self._judged:
                    continue
                self._judged.add(topic_partition)
                if self._is_stray(topic_partition, topic.topic_id, state):
                    strays.append(topic_partition)
        if not strays:
            return
        self._log.warning("stray_replicas", partitions=[str(stray) for stray in strays])
        _, to_delete = self._replicas.leadership.stop([Stop(tp, delete=True) for tp in strays])
        if self._deleted is not None:
            for topic_partition in to_delete:
                self._deleted(topic_partition)
        await self._replicas.delete_logs(to_delete)

    def _is_stray(
        self, topic_partition: TopicPartition, topic_id: UUID, state: UpdateMetadataPartitionState
    ) -> bool:
        """A. Of an earlier topic of this name, which has been deleted since: whoever has a replica
        of the new one makes it then.
        B. Of the very same topic, under an older leader epoch, on no broker that has a replica.
        While this one is in the ISR it may still be elected, should the controller die before the
        reassignment ends."""
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
