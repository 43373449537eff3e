"""Replicas and logs that no longer belong to this broker: found after a restart and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from minikafka.kernel.cluster import LEADER_DURING_DELETE, ZERO_UUID, TopicPartition
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.server.broker.replication.leadership import Stop
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.storage.directories.log_manager import LogManager

JUDGED_AT_ONCE: Final = 500  # mentions looked at without a pause: about a millisecond


class StrayReplicas:
    """Removes replicas that were reassigned to other brokers while this broker was away.

    A reassignment sends StopReplica to the removed replicas and does not wait for responses. A
    broker that is dead, or without its ZooKeeper session, does not receive it. The controller
    repeats it when the broker returns, but the next controller does not. In Kafka such a replica
    stays: an old leader continues to accept records, an old follower continues to fetch, and the
    disk is never freed.

    After a restart of the broker, and after a change of controller, the broker receives the
    metadata of all partitions, in slices. The first mention of each partition decides whether the
    local replica is a stray.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        deleted: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        """``deleted`` is called with each replica that is removed."""
        self._replicas = replicas
        self._logs = logs
        self._deleted = deleted
        self._epochs: tuple[int, int] | None = None
        self._judged: set[TopicPartition] = set()  # partitions mentioned in these epochs
        self._broker_id = replicas.config.broker_id
        self._log = event_log("state-change", broker=self._broker_id)

    async def drop(self, request: UpdateMetadataRequest) -> None:
        """Stop and delete the strays among the partitions that ``request`` mentions for the first
        time in this controller epoch and broker epoch. Works in slices, and ends when a request
        with other epochs has come meanwhile."""
        epochs = (request.controller_epoch, request.broker_epoch)
        if epochs != self._epochs:
            self._epochs = epochs
            self._judged.clear()
        states = ((t, state) for t in request.topic_states for state in t.partition_states)
        while some := list(islice(states, JUDGED_AT_ONCE)):
            strays = [tp for topic, state in some if (tp := self._first_mention(topic, state))]
            if strays:
                await self._remove(strays)
            if len(some) == JUDGED_AT_ONCE:
                await asyncio.sleep(0)
            if epochs != self._epochs:
                return

    def _first_mention(
        self, topic: UpdateMetadataTopicState, state: UpdateMetadataPartitionState
    ) -> TopicPartition | None:
        """Return the partition if this is its first mention and the local replica is a stray."""
        topic_partition = TopicPartition(topic.topic_name, state.partition_index)
        if topic_partition in self._judged:
            return None
        self._judged.add(topic_partition)
        return topic_partition if self._is_stray(topic_partition, topic.topic_id, state) else None

    async def _remove(self, strays: Sequence[TopicPartition]) -> None:
        self._log.warning("stray_replicas_found", partitions=[str(stray) for stray in strays])
        _, to_delete = self._replicas.leadership.stop([Stop(tp, delete=True) for tp in strays])
        if self._deleted is not None:
            for topic_partition in to_delete:
                self._deleted(topic_partition)
        await self._replicas.delete_logs(to_delete)

    def _is_stray(
        self, topic_partition: TopicPartition, topic_id: UUID, state: UpdateMetadataPartitionState
    ) -> bool:
        """Whether the local replica must be removed, in one of these cases:

        A. The log belongs to a deleted topic of the same name. If the new topic has a replica on
           this broker, LeaderAndIsr creates its log.
        B. The log belongs to this topic, its leader epoch is older, and this broker is neither a
           replica nor in the ISR. A member of the ISR could still be elected if the controller
           dies before the reassignment ends."""
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


GRACE_MS = 60_000


class OrphanedLogs:
    """Renames logs whose topics no longer exist.

    When a replica is moved away from a dead broker, then its topic is deleted and another
    controller is elected, no request ever mentions the replica to the broker. (Kafka keeps it.)

    So one minute after the start, once a controller has sent a request, the broker reads the list
    of topics from ZooKeeper. Logs of other topics that are not hosted are renamed to end in
    ``-stray``, as Kafka's brokers with KRaft do. Operators may delete them; the broker does not,
    since the decision rests on one list. The list is not older than the broker's registration,
    which the same session has written, so it includes the existing topics of all logs found on
    disk. Partitions of topics created later are hosted, and therefore not renamed.
    """

    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        logs: LogManager,
        topics: Callable[[], Awaitable[Sequence[str]]],
        spoken_to: Callable[[], bool],
    ) -> None:
        """``topics`` reads all topics from ZooKeeper. ``spoken_to`` returns whether a controller
        has sent a request to this broker."""
        self._clock = clock
        self._replicas = replicas
        self._logs = logs
        self._topics = topics
        self._spoken_to = spoken_to
        self._task: asyncio.Task[None] | None = None
        self._log = event_log("orphaned-logs", broker=replicas.config.broker_id)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self._look_once(), name="orphaned-logs")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _look_once(self) -> None:
        while True:
            await self._clock.sleep(GRACE_MS)
            if self._spoken_to():
                try:
                    return await self._put_aside()
                except NoAuth:
                    raise
                except CoordinationError as error:  # mostly an expired session
                    self._log.warning("topics_not_listed", error=repr(error))

    async def _put_aside(self) -> None:
        unclaimed = [tp for tp in self._logs.logs() if self._replicas.hosted.get(tp) is None]
        if not unclaimed:
            return
        topics = set(await self._topics())
        if not topics:
            return  # it is more likely that ZooKeeper lost its data than that no topic is left
        for orphan in sorted(tp for tp in unclaimed if tp.topic not in topics):
            if self._replicas.hosted.get(orphan) is not None:
                continue
            self._log.warning("orphaned_log_set_aside", partition=str(orphan))
            self._replicas.checkpoint.forget(orphan)
            try:
                await self._logs.delete(orphan, stray=True)
            except OSError as error:
                self._replicas.disk_failed(orphan, error)
