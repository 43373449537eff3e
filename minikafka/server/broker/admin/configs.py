"""AlterConfigs and IncrementalAlterConfigs: checks, then one ZooKeeper write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.core.policies import AlterConfigPolicy, ConfigProposal
from minikafka.core.security.client_quotas import sanitized
from minikafka.core.topic_names import require_valid
from minikafka.kernel.config import ConfigDef, ConfigError, ConfigType, InvalidConfiguration
from minikafka.kernel.dynamic_settings import DYNAMIC_CONFIG
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import BadVersion, CoordinationError
from minikafka.kernel.settings import TOPIC_CONFIG
from minikafka.server.broker.admin.broker_loggers import BrokerLoggers
from minikafka.server.broker.admin.config_alterations import Change, check_names
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.admin.named_resources import NAMED_RESOURCES
from minikafka.server.broker.admin.policies import apply_policy
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

# Raises ConfigError for an unknown key or a bad value, and KafkaError for a named resource.
CheckConfig: TypeAlias = Callable[[Mapping[str, str]], object]


class _Target(NamedTuple):
    """What an alteration changes: an entity of ``/config/<kind>``, its keys, and the check of its
    settings. A ``named`` resource ends with its last key."""

    kind: str
    entity: str
    rows: ConfigDef
    check: CheckConfig
    named: bool = False


class ConfigAdminManager:
    """Kafka's ``ConfigAdminManager`` and the config half of ``ZkAdminManager``.

    Any broker may alter configurations, not only the controller. The settings of one broker must be
    altered at that broker, since only it can validate them against its configuration file. Changes
    take effect when brokers read the change notification (see ``ConfigChanges``).
    """

    def __init__(
        self,
        broker_id: int,
        cache: MetadataCache,
        store: Callable[[], ZkStore],
        dynamic: DynamicBrokerConfig,
        check_topic_config: CheckConfig,
        loggers: BrokerLoggers,
        log: EventLog | None = None,
        policy: AlterConfigPolicy | None = None,
    ) -> None:
        self._policy = policy
        self._broker_id = broker_id
        self._cache = cache
        self._store = store
        self._dynamic = dynamic
        self._check_topic_config = check_topic_config
        self._loggers = loggers
        self._log = log or event_log("config-admin", broker=broker_id)

    async def replace(
        self, resource_type: int, name: str, changes: Sequence[Change], validate_only: bool
    ) -> None:
        """Replace the whole configuration of a resource (AlterConfigs). Raises KafkaError."""
        await self._alter(resource_type, name, changes, validate_only, keeps=False)

    async def increment(
        self, resource_type: int, name: str, changes: Sequence[Change], validate_only: bool
    ) -> None:
        """Change only the named keys of a resource (IncrementalAlterConfigs). Raises KafkaError."""
        if resource_type == ResourceType.BROKER_LOGGER:
            check_names(changes)
            self._loggers.alter(name, changes, validate_only)
            return
        await self._alter(resource_type, name, changes, validate_only, keeps=True)

    async def _alter(
        self,
        resource_type: int,
        name: str,
        changes: Sequence[Change],
        validate_only: bool,
        *,
        keeps: bool,
    ) -> None:
        """Change the keys that are named, and with ``keeps`` only these. Raises KafkaError."""
        _check_form(changes)
        target = self._target(resource_type, name)
        try:
            check = partial(self._check_policy, ResourceType(resource_type), name, changes)
            while not await self._try(target, changes, validate_only, keeps, check):
                pass  # another broker wrote the znode between the read and the write
        except InvalidConfiguration as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        except ConfigError as error:
            label = ResourceType(resource_type).name
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid config value for resource ConfigResource(type={label}, name='{name}'): "
                f"{error}",
            ) from error
        except (CoordinationError, MalformedZnode) as error:
            self._log.warning("configuration_not_altered", entity=target.entity, error=repr(error))
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {error!r}") from error

    def _target(self, resource_type: int, name: str) -> _Target:
        """Raises KafkaError for an unknown type, and a name that the type cannot have."""
        match resource_type:
            case ResourceType.TOPIC:
                self._require_topic(name)
                check = self._check_topic_config
                return _Target(paths.TOPIC_CONFIGS, name, TOPIC_CONFIG, check)
            case ResourceType.BROKER:
                entity = self._broker_entity(name)
                of_one = entity != paths.DEFAULT_ENTITY
                return _Target(
                    paths.BROKER_CONFIGS,
                    entity,
                    DYNAMIC_CONFIG,
                    lambda after: self._dynamic.check(after, of_one),
                )
        kind = NAMED_RESOURCES.get(resource_type)
        if kind is None:  # includes BROKER_LOGGER, which only ``increment`` can alter
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        kind.require_name(name, kind.unnamed_altered)
        return _Target(
            kind.znodes,
            sanitized(name),
            kind.rows,
            lambda after: kind.check(after, self._dynamic.current),
            named=True,
        )

    async def _try(
        self,
        target: _Target,
        changes: Sequence[Change],
        validate_only: bool,
        keeps: bool,
        check_policy: Callable[[], None],
    ) -> bool:
        """Check and write the configuration. False if the znode has changed since it was read."""
        kind, entity, store = target.kind, target.entity, self._store()
        before: dict[str, str] = {}
        version: int | None = None  # any
        if keeps or target.named:
            before, version = await store.entity_config_version(kind, entity)
        of_this_broker = kind == paths.BROKER_CONFIGS and entity != paths.DEFAULT_ENTITY
        if kind == paths.BROKER_CONFIGS:  # as in Kafka, invalid settings go with the next change
            before = self._dynamic.valid(before, of_this_broker)
        after = changed(before if keeps else {}, changes, target.rows)
        target.check(after)
        check_policy()
        if validate_only:
            return True
        stored: Mapping[str, str] = after
        if of_this_broker:
            stored = self._dynamic.passwords.encrypted(after)
            await self._dynamic.prepare(after)
            self._dynamic.reload(after)
        try:
            if target.named and version is not None:
                await store.change_or_remove_entity(kind, entity, stored, version)
            else:
                await store.change_entity_config(kind, entity, stored, version)
        except BadVersion:
            return False
        self._log.info("configuration_altered", kind=kind, entity=entity, keys=sorted(after))
        return True

    def _check_policy(
        self, resource_type: ResourceType, name: str, changes: Sequence[Change]
    ) -> None:
        """Raises KafkaError."""
        if self._policy is not None:
            deleted = AlterOperation.DELETE
            configs = {c.name: None if c.operation == deleted else c.value for c in changes}
            alteration = ConfigProposal(resource_type, name, configs)
            apply_policy(self._policy.validate, alteration, self._log)

    def _require_topic(self, name: str) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if not self._cache.contains_topic(name):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        require_valid(name)

    def _broker_entity(self, name: str) -> str:
        if not name:
            return paths.DEFAULT_ENTITY
        require_this_broker(name, self._broker_id)
        return str(self._broker_id)


def require_this_broker(name: str, broker_id: int) -> None:
    """Raise KafkaError(INVALID_REQUEST) unless ``name`` is the id of this broker."""
    try:
        requested = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from None
    if requested != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id}, but received {name}",
        )


def _check_form(changes: Sequence[Change]) -> None:
    """Raise KafkaError(INVALID_REQUEST) for malformed changes or unknown operations."""
    check_names(changes)
    unknown = [c.operation for c in changes if c.operation not in list(AlterOperation)]
    if unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0]}")


def changed(
    before: Mapping[str, str], changes: Sequence[Change], rows: ConfigDef
) -> dict[str, str]:
    """Return the configuration ``before`` with ``changes`` applied. Raises ConfigError for an
    APPEND or SUBTRACT on a key that is not a list."""
    after = dict(before)
    for change in changes:
        value = change.value or ""
        if change.operation == AlterOperation.DELETE:
            after.pop(change.name, None)
        elif change.operation == AlterOperation.SET:
            after[change.name] = value
        else:
            old, given = _list(change, after, rows), _items(value)
            if change.operation == AlterOperation.APPEND:
                items = old + [item for item in given if item not in old]
            else:
                items = [item for item in old if item not in given]
            after[change.name] = ",".join(items)
    return after


def _list(change: Change, config: Mapping[str, str], rows: ConfigDef) -> list[str]:
    row = rows.settings.get(change.name)
    if row is None:
        raise InvalidConfiguration(f"Unknown config name: {change.name}")
    if row.type is not ConfigType.LIST:
        verb = AlterOperation(change.operation).name.lower()
        raise InvalidConfiguration(
            f"Config value {verb} is not allowed for config key: {change.name}"
        )
    return _items(config.get(change.name, row.text(row.default) or ""))


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]
