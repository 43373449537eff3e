"""Applies configuration changes to a running broker: topics, elections, sockets, throttles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Network
from minikafka.kernel.settings import topic_defaults
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.admin.quota_znodes import QuotaZnodes
from minikafka.server.broker.metadata.scram_credentials import ScramCredentialCache
from minikafka.server.controller.kafka_controller import KafkaController
from minikafka.server.listeners.connection_quotas import ConnectionQuotas
from minikafka.server.node import config_views as views
from minikafka.server.node.wiring import BrokerParts

UNCLEAN = "unclean.leader.election.enable"


class NamedConfigs(Protocol):
    """The named resources of one kind, as a part of the broker knows them."""

    async def refresh(self, znodes: Collection[str]) -> None:
        """Read these again. Raises CoordinationError."""
        ...

    async def refresh_all(self) -> None:
        """Read all there are. Raises CoordinationError."""
        ...


class ConfigEffects:
    """The ``ConfigHandler`` of ``ConfigChanges``. It updates ``dynamic``, and applies the changes
    to the parts of the broker."""

    def __init__(
        self,
        dynamic: DynamicBrokerConfig,
        parts: BrokerParts,
        controller: KafkaController,
        quotas: ConnectionQuotas,
        network: Network,
        credentials: ScramCredentialCache,
        quota_znodes: QuotaZnodes,
        change_listeners: Callable[[], Awaitable[None]],
        named: Mapping[str, NamedConfigs],
    ) -> None:
        """``named`` are the parts that use named resources, by their rooms in ``/config``."""
        self._named = named
        self._change_listeners = change_listeners
        self._dynamic = dynamic
        self._parts = parts
        self._controller = controller
        self._quotas = quotas
        self._network = network
        self._credentials = credentials
        self._quota_znodes = quota_znodes
        self._log = event_log("dynamic-config")
        for listener in (self._topic_defaults, self._elections):
            dynamic.on_change(listener)
        self._limit_replication()

    async def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        self._dynamic.update(cluster, own)
        self._limit_replication()
        await self._limit_connections()
        await self._change_listeners()

    async def quotas_changed(self, entity_paths: Collection[str]) -> None:
        await self._quota_znodes.read(entity_paths)

    async def all_quotas_changed(self) -> None:
        await self._quota_znodes.read_all()

    def _topic_defaults(self, _: Config, after: Config) -> None:
        self._parts.topic_configs.set_defaults(topic_defaults(after))
        self._parts.replicas.all_topic_configs_changed()

    def _elections(self, before: Config, after: Config) -> None:
        if after.boolean(UNCLEAN) != before.boolean(UNCLEAN):
            self._controller.set_unclean_election(after.boolean(UNCLEAN))

    async def _limit_connections(self) -> None:
        """Apply the limits of connections. An unknown host leaves them as they are."""
        try:
            limits = await views.connection_quotas(self._dynamic.current, self._network)
        except ConfigError as error:
            self._log.error("connection_limits_not_changed", error=str(error))
        else:
            self._quotas.configure(limits)

    def _limit_replication(self) -> None:
        """Apply the replication throttle rates. They exist only at run time, in no ``Config``."""
        rate = self._dynamic.run_time
        self._parts.replicas.throttles.limit(
            rate(LEADER_RATE), rate(FOLLOWER_RATE), rate(LOG_DIRS_RATE)
        )

    async def topics_changed(self, topics: Collection[str]) -> None:
        """Apply the new configurations of ``topics`` to their partitions on this broker. The
        controller also retries elections of partitions without a leader, on any broker, since an
        unclean election may be allowed now."""
        read = await self._parts.topic_configs.refresh(topics)
        self._parts.replicas.topic_configs_changed(frozenset(read))
        if self._controller.is_active:
            for topic in sorted(topics):
                self._controller.unclean_election_enabled(topic)

    async def all_topics_changed(self) -> None:
        """Apply the configurations of all topics, without retrying elections."""
        read = await self._parts.topic_configs.refresh_all()
        self._parts.replicas.topic_configs_changed(frozenset(read))

    async def users_changed(self, names: Collection[str]) -> None:
        await self._credentials.refresh(name for name in names if "/" not in name)

    async def all_users_changed(self) -> None:
        await self._credentials.refresh_all()

    async def named_changed(self, kind: str, znodes: Collection[str]) -> None:
        if kind in self._named:
            await self._named[kind].refresh(znodes)

    async def all_named_changed(self) -> None:
        for configs in self._named.values():
            await configs.refresh_all()
