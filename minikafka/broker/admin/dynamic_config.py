"""A broker's configuration while it runs: static values, and changes read from ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

from minikafka.kernel.config import Config, ConfigDef, ConfigError
from minikafka.kernel.dynamic_settings import DYNAMIC_CONFIG, is_dynamic
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, CoordinationError, SessionExpired, WatchEvent
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.zookeeper import paths
from minikafka.zookeeper.errors import MalformedZnode
from minikafka.zookeeper.store import ZkStore
from minikafka.zookeeper.store_configs import ConfigNotice

# Called with the configuration before and after a change.
Reconfigure: TypeAlias = Callable[[Config, Config], None]


class DynamicBrokerConfig:
    """The effective configuration of a running broker (Kafka's ``DynamicBrokerConfig``).

    ``current`` merges these sources, by precedence: the dynamic settings of this broker
    (``own``, /config/brokers/<id>), those of all brokers (``cluster``, /config/brokers/<default>),
    the configuration file (``static``), the defaults. Invalid dynamic settings, which another tool
    may have written, are logged and ignored.
    """

    def __init__(
        self, static: Config, broker_def: ConfigDef = BROKER_CONFIG, log: EventLog | None = None
    ) -> None:
        self.static = static
        self.current = static
        self.cluster: Mapping[str, str] = MappingProxyType({})
        self.own: Mapping[str, str] = MappingProxyType({})
        self._broker_def = broker_def
        self._listeners: list[Reconfigure] = []
        self._log = log or event_log("dynamic-config")

    def on_change(self, listener: Reconfigure) -> None:
        """Register a listener. After every change of ``current`` the listeners are called in the
        order of registration, with the configuration before and after."""
        self._listeners.append(listener)

    def check(self, given: Mapping[str, str], per_broker: bool) -> None:
        """Validate ``given`` as the dynamic settings of this broker (``per_broker``) or of all
        brokers.

        Raises KafkaError(INVALID_REQUEST) if they are invalid. Kafka uses that code for brokers and
        INVALID_CONFIG for topics (KAFKA-13609).
        """
        fixed = sorted(name for name in given if not is_dynamic(name))
        if fixed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: Set({', '.join(fixed)})",
            )
        try:
            for name, text in given.items():
                _check(name, text)
            cluster, own = (self.cluster, given) if per_broker else (given, self.own)
            self._merge(cluster, own)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def update(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the dynamic settings of all brokers (``cluster``) and of this broker (``own``), as
        read from ZooKeeper, and call the listeners if ``current`` has changed."""
        before = self.current
        self.cluster = MappingProxyType(self._readable(cluster, "cluster"))
        self.own = MappingProxyType(self._readable(own, "broker"))
        self.current = self._merge(self.cluster, self.own)
        if self.current.given == before.given:
            return
        changed = {
            name
            for name in before.given.keys() | self.current.given.keys()
            if before.given.get(name) != self.current.given.get(name)
        }
        self._log.info("settings_reconfigured", keys=sorted(changed))
        for listener in self._listeners:
            listener(before, self.current)

    def run_time(self, name: str) -> int | None:
        """Return the value of one of ``RUN_TIME_SETTINGS``; None if it is not set."""
        text = self.own.get(name, self.cluster.get(name))
        return None if text is None else int(DYNAMIC_CONFIG.settings[name].parse(text))

    def _merge(self, *layers: Mapping[str, str]) -> Config:
        """Merge ``layers`` over the static settings; later layers win. Raises ConfigError."""
        given = dict(self.static.given)
        for layer in layers:
            given |= {name: text for name, text in layer.items() if self._has(name)}
        return self._broker_def.parse(given)

    def _has(self, name: str) -> bool:
        """Whether the configuration file can have this key. Run-time settings it cannot have."""
        return name in self._broker_def.settings or name in self._broker_def.ignored

    def _readable(self, given: Mapping[str, str], source: str) -> dict[str, str]:
        taken = {}
        for name, text in given.items():
            try:
                if not is_dynamic(name):
                    raise ConfigError(f"{name} cannot be changed while a broker runs")
                _check(name, text)
            except ConfigError as error:
                self._log.error("dynamic_setting_ignored", source=source, error=str(error))
            else:
                taken[name] = text
        return taken


def _check(name: str, text: str) -> None:
    """Raise ConfigError if the value of a known dynamic setting cannot be parsed."""
    row = DYNAMIC_CONFIG.settings.get(name)
    if row is not None:
        row.parse(text)


def changed(before: Config, after: Config, names: Iterable[str]) -> bool:
    """Whether one of the settings ``names`` differs between the two configurations."""
    return any(before.values.get(name) != after.values.get(name) for name in names)


NOTICE_LIFETIME_MS = 15 * 60 * 1000  # Kafka's
RETRY_MS = 500


class ConfigHandler(Protocol):
    """Applies configuration changes to the running broker (Kafka's ``ConfigHandler``). The node
    implements it."""

    async def topics_changed(self, topics: Collection[str]) -> None:
        """Re-read the configurations of these topics and apply them. Raises CoordinationError."""
        ...

    async def all_topics_changed(self) -> None:
        """Re-read and apply the configurations of all topics, since notifications may have been
        missed. Raises CoordinationError."""
        ...

    def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the dynamic settings of all brokers (``cluster``) and of this broker (``own``)."""
        ...


async def read_broker_configs(
    store: ZkStore, broker_id: int
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Read the dynamic settings of all brokers, and those of this broker. A znode that cannot be
    decoded is logged and counts as empty. Raises CoordinationError."""
    found: list[Mapping[str, str]] = []
    for name in (paths.DEFAULT_ENTITY, str(broker_id)):
        try:
            found.append(await store.entity_config(paths.BROKER_CONFIGS, name))
        except MalformedZnode as error:
            event_log("config-changes", broker=broker_id).error(
                "broker_settings_malformed", entity=name, error=str(error)
            )
            found.append({})
    return found[0], found[1]


class ConfigChanges:
    """Watches the change notifications in ZooKeeper and re-reads what they name.

    Kafka's ``ZkConfigManager``. A notification names the changed entity and does not contain its
    configuration. All configurations are read after the
    start and in each new ZooKeeper session, since notifications may have been missed. Every broker
    deletes notifications older than ``NOTICE_LIFETIME_MS``, as in Kafka."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        broker_id: int,
        handler: ConfigHandler,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._handler = handler
        self._log = log or event_log("config-changes", broker=broker_id)
        self._news = asyncio.Event()
        self._read_all = True
        self._taken: dict[str, int] = {}  # applied notices: name to creation time in ms
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._news.set()
        self._task = tasks.create_task(self._follow(), name="/config/changes-event-process-thread")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def on_new_session(self, _: object) -> None:
        """Read all configurations: the watch ended with the old session, and notifications may have
        been missed."""
        self._read_all = True
        self._news.set()

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
                    continue  # ``on_new_session`` follows
                self._log.warning("config_changes_read_failed", error=repr(error))
                await self._clock.sleep(RETRY_MS)
                self._news.set()

    async def _look(self, read_all: bool) -> None:
        """Read and apply the new notices, or with ``read_all`` everything. Raises
        CoordinationError."""
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
            self._log.info("config_changes_received", entities=["/".join(e[::2]) for e in entities])
        mine = {paths.DEFAULT_ENTITY, str(self._broker_id)}
        if read_all or any(
            kind == paths.BROKER_CONFIGS and name in mine for kind, _, name in entities
        ):
            self._handler.broker_changed(*await read_broker_configs(self._store(), self._broker_id))
        topics = {name for kind, _, name in entities if kind == paths.TOPIC_CONFIGS}
        if read_all:
            await self._handler.all_topics_changed()
        elif topics:
            await self._handler.topics_changed(topics)

    async def _clear_away(self, store: ZkStore) -> None:
        before_ms = self._clock.wall_ms() - NOTICE_LIFETIME_MS
        old = sorted(name for name, made_ms in self._taken.items() if made_ms < before_ms)
        if old:
            await store.delete_config_changes(old)
