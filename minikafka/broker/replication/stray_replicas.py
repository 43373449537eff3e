"""Replicas and logs that no longer belong to this broker: found after a restart, and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from minikafka.broker.replication.leadership import Stop
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.kernel.cluster import LEADER_DURING_DELETE, ZERO_UUID, TopicPartition
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, CoordinationError
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from minikafka.storage.directories.log_manager import LogManager


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


GRACE_MS = 60_000


class OrphanedLogs:
    """A replica that was moved away from a dead broker is forgotten when its topic is deleted and
    another controller elected: nobody will ever tell the broker that it has one (Kafka keeps it).

    So, a minute after the start, when a controller has spoken to the broker and whoever remembers
    the replica has had it deleted, the broker asks ZooKeeper which topics there are. Logs of others
    that nobody claims get a name that ends in ``-stray`` (as Kafka's brokers with KRaft do it), for
    people to delete, as all this rests on one list. The list is not older than the broker's
    registration, which the same session wrote, and so it has the topic of any log found on disk.
    Topics made later are no matter: whoever has been told to host them does.
    """

    def __init__(
        self,
        clock: Clock,
        replicas: ReplicaManager,
        logs: LogManager,
        topics: Callable[[], Awaitable[Sequence[str]]],
        spoken_to: Callable[[], bool],
    ) -> None:
        """``topics`` asks for all topics in ZooKeeper, ``spoken_to`` whether a controller has told
        this broker anything."""
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
                except CoordinationError as error:  # a session that is over, mostly
                    self._log.warning("topics_not_listed", error=repr(error))

    async def _put_aside(self) -> None:
        unclaimed = [tp for tp in self._logs.logs() if self._replicas.hosted.get(tp) is None]
        if not unclaimed:
            return
        topics = set(await self._topics())
        if not topics:
            return  # more likely a ZooKeeper that lost its data than a cluster that lost its topics
        for orphan in sorted(tp for tp in unclaimed if tp.topic not in topics):
            if self._replicas.hosted.get(orphan) is not None:
                continue
            self._log.warning("orphan_put_aside", partition=str(orphan))
            self._replicas.checkpoint.forget(orphan)
            try:
                await self._logs.delete(orphan, stray=True)
            except OSError as error:
                self._replicas.disk_failed(orphan, error)
