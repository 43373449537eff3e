"""Configuration that was altered in ZooKeeper, brought into effect on this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, CoordinationError, SessionExpired, Watcher, WatchEvent
from minikafka.zookeeper import paths
from minikafka.zookeeper.errors import MalformedZnode
from minikafka.zookeeper.store_configs import ConfigNotice

NOTICE_LIFETIME_MS = 15 * 60 * 1000  # Kafka's: whoever lost its session for longer reads all anew
RETRY_MS = 500


class ConfigNotices(Protocol):
    """What is needed of ZooKeeper."""

    async def config_changes(self, watcher: Watcher | None = None) -> list[str]: ...

    async def config_change_notices(self, names: Sequence[str]) -> list[ConfigNotice]: ...

    async def delete_config_changes(self, names: Sequence[str]) -> None: ...

    async def entity_config(self, entity_type: str, entity_name: str) -> dict[str, str]: ...


class Effect(Protocol):
    """Where the news goes."""

    async def topics_changed(self, topics: Collection[str] | None) -> None:
        """These topics (None: any) were configured anew: read them. Raises CoordinationError."""
        ...

    def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """What all brokers, and this one, are configured with."""
        ...


class ConfigChanges:
    """Kafka's ``ZkConfigManager``, level-triggered: a notice says only what to read again.

    On every session, and once after the start, all is read: notices may have come and gone. Old
    notices are cleared away by whoever reads, as in Kafka.
    """

    def __init__(
        self,
        store: Callable[[], ConfigNotices],
        clock: Clock,
        broker_id: int,
        effect: Effect,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._effect = effect
        self._log = log or event_log("config-changes", broker=broker_id)
        self._news = asyncio.Event()
        self._read_all = True
        self._taken: dict[str, int] = {}  # notices that are there, and when they were made
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._news.set()
        self._task = tasks.create_task(self._follow(), name="/config/changes-event-process-thread")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def on_new_session(self, _: object) -> None:
        """The watch went with the old session, and so may have notices."""
        self._read_all = True
        self._news.set()

    async def read_brokers(self) -> None:
        """Read what this broker, and all, are configured with. Raises CoordinationError."""
        self._effect.broker_changed(
            await self._entity(paths.DEFAULT_ENTITY), await self._entity(str(self._broker_id))
        )

    async def _entity(self, name: str) -> Mapping[str, str]:
        try:
            return await self._store().entity_config(paths.BROKER_CONFIGS, name)
        except MalformedZnode as error:
            self._log.error("broker_settings_garbled", entity=name, error=str(error))
            return {}

    def _fired(self, _: WatchEvent) -> None:
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            read_all, self._read_all = self._read_all, False
            try:
                await self._look(read_all)
            except CoordinationError as error:
                self._read_all = True
                if isinstance(error, SessionExpired):
                    continue  # the next session says so
                self._log.warning("config_changes_unreadable", error=repr(error))
                await self._clock.sleep(RETRY_MS)
                self._news.set()

    async def _look(self, read_all: bool) -> None:
        """Raises CoordinationError."""
        store = self._store()
        names = await store.config_changes(self._fired)
        there = set(names)
        self._taken = {name: made for name, made in self._taken.items() if name in there}
        notices = await store.config_change_notices([n for n in names if n not in self._taken])
        if notices or read_all:
            await self._take(notices, read_all or any(n.entity_path is None for n in notices))
        self._taken |= {notice.name: notice.created_ms for notice in notices}
        await self._clear_away(store)

    async def _take(self, notices: Iterable[ConfigNotice], read_all: bool) -> None:
        entities = [n.entity_path.partition("/") for n in notices if n.entity_path is not None]
        if notices:
            self._log.info("config_changes", entities=["/".join(e[::2]) for e in entities])
        mine = {paths.DEFAULT_ENTITY, str(self._broker_id)}
        if read_all or any(
            kind == paths.BROKER_CONFIGS and name in mine for kind, _, name in entities
        ):
            await self.read_brokers()
        topics = {name for kind, _, name in entities if kind == paths.TOPIC_CONFIGS}
        if read_all or topics:
            await self._effect.topics_changed(None if read_all else topics)

    async def _clear_away(self, store: ConfigNotices) -> None:
        before_ms = self._clock.wall_ms() - NOTICE_LIFETIME_MS
        old = sorted(name for name, made_ms in self._taken.items() if made_ms < before_ms)
        if old:
            await store.delete_config_changes(old)
