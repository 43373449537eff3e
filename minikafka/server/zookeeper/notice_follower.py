"""Follows change notifications: sequential znodes, each of which names what has changed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import (
    Clock,
    CoordinationError,
    NoAuth,
    SessionExpired,
    Watcher,
    WatchEvent,
)

NOTICE_LIFETIME_MS: Final = 15 * 60 * 1000  # Kafka's
RETRY_MS: Final = 500


class Notice(Protocol):
    """A notification that was read: the ``name`` under which it is listed, and its age."""

    @property
    def name(self) -> str: ...

    @property
    def created_ms(self) -> int: ...


N = TypeVar("N", bound=Notice)


class NoticeFollower(ABC, Generic[N]):
    """Watches notifications and applies what they name (Kafka's
    ``ZkNodeChangeNotificationListener``).

    A notification names what has changed and does not contain it. Everything is read after the
    start and in each new ZooKeeper session, since notifications may have been missed. Every broker
    deletes notifications older than ``NOTICE_LIFETIME_MS``, as in Kafka. One notification after
    the other is applied, by one task.
    """

    def __init__(self, clock: Clock, log: EventLog, task_name: str) -> None:
        self._clock = clock
        self._log = log
        self._task_name = task_name
        self._news = asyncio.Event()
        self._read_all = True
        self._taken: dict[str, int] = {}  # applied notices: name to creation time in ms
        self._task: asyncio.Task[None] | None = None
        self._readers: list[asyncio.Future[None]] = []  # callers of ``read_again``

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._news.set()
        self._task = tasks.create_task(self._follow(), name=self._task_name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def on_new_session(self, _: object) -> None:
        """Read everything: the watch ended with the old session, and notifications may have been
        missed."""
        self._read_all = True
        self._news.set()

    async def catch_up(self) -> None:
        """Arm the watch and apply what is there. Call this before ``start`` where nothing may be
        served without. Raises CoordinationError."""
        self._read_all = False
        await self._look(read_all=True)

    async def read_again(self) -> None:
        """Read everything although nothing was announced, and return when it is applied. Call this
        after ``start``."""
        done = asyncio.get_running_loop().create_future()
        self._readers.append(done)
        await self.on_new_session(None)
        await done

    @abstractmethod
    async def _names(self, watcher: Watcher) -> list[str]:
        """Arm the watch. Return the names of the notifications in order."""

    @abstractmethod
    async def _read(self, names: Sequence[str]) -> list[N]:
        """Read notifications in order, without those that are gone."""

    @abstractmethod
    async def _delete(self, names: Sequence[str]) -> None:
        """Delete notifications, of which some may be gone already."""

    @abstractmethod
    async def _take(self, notices: Sequence[N], read_all: bool) -> None:
        """Apply what the new notifications name, or with ``read_all`` everything. Raises
        CoordinationError."""

    def _fired(self, _: WatchEvent) -> None:
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            read_all, self._read_all = self._read_all, False
            readers = list(self._readers)
            try:
                await self._look(read_all)
            except NoAuth:
                raise
            except CoordinationError as error:
                self._read_all = True
                if isinstance(error, SessionExpired):
                    continue  # ``on_new_session`` follows
                self._log.warning("change_notices_read_failed", error=repr(error))
                await self._clock.sleep(RETRY_MS)
                self._news.set()
            else:
                del self._readers[: len(readers)]
                for reader in readers:
                    if not reader.done():
                        reader.set_result(None)

    async def _look(self, read_all: bool) -> None:
        """Read and apply the new notices, or with ``read_all`` everything. Raises
        CoordinationError."""
        names = await self._names(self._fired)
        there = set(names)
        self._taken = {name: made for name, made in self._taken.items() if name in there}
        notices = await self._read([name for name in names if name not in self._taken])
        if notices or read_all:
            await self._take(notices, read_all)
        self._taken |= {notice.name: notice.created_ms for notice in notices}
        await self._clear_away()

    async def _clear_away(self) -> None:
        before_ms = self._clock.wall_ms() - NOTICE_LIFETIME_MS
        old = sorted(name for name, made_ms in self._taken.items() if made_ms < before_ms)
        if old:
            await self._delete(old)
