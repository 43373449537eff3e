"""Logs of topics that are gone: found on disk by a broker that comes back, they are put aside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, CoordinationError
from minikafka.storage.log_manager import LogManager

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
            self._replicas.leadership.forget_checkpoint(orphan)
            try:
                await self._logs.delete(orphan, stray=True)
            except OSError as error:
                self._replicas.disk_failed(orphan, error)
