"""A broker's configuration while it runs: static values, and changes read from ZooKeeper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigDef, ConfigError
from minikafka.kernel.dynamic_settings import DYNAMIC_CONFIG, check_value, is_password, refusal
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, Watcher
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.notice_follower import NoticeFollower
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.store_configs import ConfigNotice

# Called with the configuration before and after a change.
Reconfigure: TypeAlias = Callable[[Config, Config], None]
# Called before a change is written. Raises ConfigError if it cannot be applied.
Prepare: TypeAlias = Callable[[Config], Awaitable[None]]
# Called with the configuration that files are read by again. Raises ConfigError.
Reload: TypeAlias = Callable[[Config], None]


class Passwords(Protocol):
    """Encrypts the passwords among dynamic settings, as they stand in ZooKeeper."""

    def encrypted(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with encrypted passwords. Raises ConfigError without a secret."""
        ...

    def decrypted(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings without encryption. A password that cannot be decrypted is logged
        and left out."""
        ...


class DynamicBrokerConfig:
    """The effective configuration of a running broker (Kafka's ``DynamicBrokerConfig``).

    ``current`` merges these sources, by precedence: the dynamic settings of this broker
    (``own``, /config/brokers/<id>), those of all brokers (``cluster``, /config/brokers/<default>),
    the configuration file (``static``), the defaults. Invalid dynamic settings, which another tool
    may have written, are logged and ignored.
    """

    def __init__(
        self,
        static: Config,
        broker_def: ConfigDef = BROKER_CONFIG,
        log: EventLog | None = None,
        passwords: Passwords | None = None,
    ) -> None:
        self.passwords = passwords or NoPasswords()
        self.static = static
        self.current = static
        self.cluster: Mapping[str, str] = MappingProxyType({})
        self.own: Mapping[str, str] = MappingProxyType({})
        self._broker_def = broker_def
        self._listeners: list[Reconfigure] = []
        self._checks: list[Reconfigure] = []
        self._prepares: list[Prepare] = []
        self._reloads: list[Reload] = []
        self._log = log or event_log("dynamic-config")

    def on_change(self, listener: Reconfigure) -> None:
        """Register a listener. After every change of ``current`` the listeners are called in the
        order of registration, with the configuration before and after."""
        self._listeners.append(listener)

    def on_check(self, check: Reconfigure) -> None:
        """Register a check of changes, which raises ConfigError if they cannot be applied."""
        self._checks.append(check)

    def on_prepare(self, prepare: Prepare) -> None:
        """Register a check that must wait, which raises ConfigError."""
        self._prepares.append(prepare)

    def on_reload(self, reload: Reload) -> None:
        """Register what reads files again although no setting has changed."""
        self._reloads.append(reload)

    def check(self, given: Mapping[str, str], per_broker: bool) -> None:
        """Validate ``given`` as the dynamic settings of this broker (``per_broker``) or of all
        brokers.

        Raises KafkaError(INVALID_REQUEST) if they are invalid. Kafka uses that code for brokers and
        INVALID_CONFIG for topics (KAFKA-13609).
        """
        problem = refusal(given, per_broker)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        try:
            for name, text in given.items():
                check_value(name, text)
            cluster, own = (self.cluster, given) if per_broker else (given, self.own)
            self._check_change(self._merge(cluster, own))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    async def prepare(self, given: Mapping[str, str]) -> None:
        """Check the settings of this broker that are about to be written. Raises
        KafkaError(INVALID_REQUEST)."""
        merged = self._merge(self.cluster, given)
        try:
            for prepare in self._prepares:
                await prepare(merged)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def reload(self, given: Mapping[str, str]) -> None:
        """Read changed files again. ``given`` are the settings of this broker that are about to be
        written (Kafka's ``reloadUpdatedFilesWithoutConfigChange``). Raises ConfigError."""
        merged = self._merge(self.cluster, given)
        for reload in self._reloads:
            reload(merged)

    def complete(self, name: str, text: str) -> None:
        """Replace a value of the configuration file that has left something open to the broker,
        such as a port 0. No listener is called: nothing has changed that anyone could have used."""
        self.static = self._broker_def.parse({**self.static.given, name: text})
        self.current = self._merge(self.cluster, self.own)

    def update(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the dynamic settings of all brokers (``cluster``) and of this broker (``own``), as
        read from ZooKeeper, and call the listeners if ``current`` has changed.

        Changes that cannot be applied are logged, and the configuration stays as it is. As in
        Kafka, the settings are described nevertheless."""
        before = self.current
        self.cluster = MappingProxyType(self.valid(cluster, per_broker=False))
        self.own = MappingProxyType(self.valid(own, per_broker=True))
        try:
            merged = self._merge(self.cluster, self.own)
            self._check_change(merged)
        except ConfigError as error:
            self._log.error("dynamic_settings_not_applied", error=str(error))
            return
        self.current = merged
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

    def _check_change(self, after: Config) -> None:
        """Raise ConfigError if the configuration cannot replace ``current``."""
        if after.given != self.current.given:
            for check in self._checks:
                check(self.current, after)

    def _merge(self, *layers: Mapping[str, str]) -> Config:
        """Merge ``layers`` over the static settings; later layers win. Raises ConfigError."""
        given = dict(self.static.given)
        for layer in layers:
            given |= {name: text for name, text in layer.items() if self._has(name)}
        return self._broker_def.parse(given)

    def _has(self, name: str) -> bool:
        """Whether the configuration file can have this key. Run-time settings it cannot have."""
        known = self._broker_def
        return name in known.settings or name in known.ignored or name.startswith(LISTENER_PREFIX)

    def valid(self, stored: Mapping[str, str], per_broker: bool) -> dict[str, str]:
        """Return the valid ones of the settings ``stored`` in ZooKeeper, with passwords decrypted
        if they are of this broker (Kafka's ``fromPersistentProps``). Log the others."""
        given = self.passwords.decrypted(stored) if per_broker else stored
        source = "broker" if per_broker else "cluster"
        taken = {}
        for name, text in given.items():
            try:
                problem = refusal([name], per_broker)
                if problem is not None:
                    raise ConfigError(problem)
                check_value(name, text)
            except ConfigError as error:
                self._log.error("dynamic_setting_ignored", source=source, error=str(error))
            else:
                taken[name] = text
        return taken


class NoPasswords:
    """The ``Passwords`` of a broker without ``password.encoder.secret``."""

    def encrypted(self, given: Mapping[str, str]) -> dict[str, str]:
        if any(map(is_password, given)):
            raise ConfigError("Password encoder secret not configured")
        return dict(given)

    def decrypted(self, stored: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in stored.items() if not is_password(name)}


def changed(before: Config, after: Config, names: Iterable[str]) -> bool:
    """Whether one of the settings ``names`` differs between the two configurations."""
    return any(before.values.get(name) != after.values.get(name) for name in names)


QUOTA_TYPES = (paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.IP_CONFIGS)
# The entity types that are no named resources.
OTHER_TYPES = {paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS, *QUOTA_TYPES}


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

    async def users_changed(self, names: Collection[str]) -> None:
        """Re-read and apply the configurations of these users. A name is that of a znode below
        /config/users: ``USER`` or ``USER/clients/CLIENT``. Raises CoordinationError."""
        ...

    async def all_users_changed(self) -> None:
        """Re-read and apply the configurations of all users. Raises CoordinationError."""
        ...

    async def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the dynamic settings of all brokers (``cluster``) and of this broker (``own``)."""
        ...

    async def quotas_changed(self, entity_paths: Collection[str]) -> None:
        """Re-read the quotas of these users, clients and IP addresses, such as
        ``users/alice/clients/app``, and apply them. Raises CoordinationError."""
        ...

    async def all_quotas_changed(self) -> None:
        """Re-read and apply all quotas. Raises CoordinationError."""
        ...

    async def named_changed(self, kind: str, znodes: Collection[str]) -> None:
        """Re-read and apply these named resources, znodes of ``/config/<kind>``, if this broker
        uses the kind. Raises CoordinationError."""
        ...

    async def all_named_changed(self) -> None:
        """Re-read and apply all named resources. Raises CoordinationError."""
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


class ConfigChanges(NoticeFollower[ConfigNotice]):
    """Watches the change notifications of configurations and re-reads what they name (Kafka's
    ``ZkConfigManager``)."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        broker_id: int,
        handler: ConfigHandler,
        log: EventLog | None = None,
    ) -> None:
        log = log or event_log("config-changes", broker=broker_id)
        super().__init__(clock, log, f"{paths.CONFIG_CHANGES}-event-process-thread")
        self._store = store
        self._broker_id = broker_id
        self._handler = handler

    async def _names(self, watcher: Watcher) -> list[str]:
        return await self._store().config_changes(watcher)

    async def _read(self, names: Sequence[str]) -> list[ConfigNotice]:
        return await self._store().config_change_notices(names)

    async def _delete(self, names: Sequence[str]) -> None:
        await self._store().delete_config_changes(names)

    async def _take(self, notices: Sequence[ConfigNotice], read_all: bool) -> None:
        read_all = read_all or any(notice.entity_path is None for notice in notices)
        entities = [n.entity_path.partition("/") for n in notices if n.entity_path is not None]
        if notices:
            self._log.info("config_changes_received", entities=["/".join(e[::2]) for e in entities])
        mine = {paths.DEFAULT_ENTITY, str(self._broker_id)}
        if read_all or any(
            kind == paths.BROKER_CONFIGS and name in mine for kind, _, name in entities
        ):
            configs = await read_broker_configs(self._store(), self._broker_id)
            await self._handler.broker_changed(*configs)
        topics = {name for kind, _, name in entities if kind == paths.TOPIC_CONFIGS}
        users = {name for kind, _, name in entities if kind == paths.USER_CONFIGS}
        if read_all:
            await self._handler.all_topics_changed()
            await self._handler.all_users_changed()
            await self._handler.all_quotas_changed()
            await self._handler.all_named_changed()
            return
        if topics:
            await self._handler.topics_changed(topics)
        if users:
            await self._handler.users_changed(users)
        quotas = {f"{kind}/{name}" for kind, _, name in entities if kind in QUOTA_TYPES}
        if quotas:
            await self._handler.quotas_changed(quotas)
        for kind in sorted({kind for kind, _, _ in entities} - OTHER_TYPES):
            znodes = {name for each, _, name in entities if each == kind}
            await self._handler.named_changed(kind, znodes)
