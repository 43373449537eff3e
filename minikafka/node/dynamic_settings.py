"""Applies configuration changes to a running broker: topics, elections, sockets, throttles."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minikafka.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.controller.kafka_controller import KafkaController
from minikafka.kernel.config import Config
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.kernel.settings import topic_defaults
from minikafka.network.connection_quotas import ConnectionQuotas
from minikafka.node import config_views as views
from minikafka.node.wiring import BrokerParts

UNCLEAN = "unclean.leader.election.enable"


class ConfigEffects:
    """The ``ConfigHandler`` of ``ConfigChanges``. It updates ``dynamic``, and applies the changes
    to the parts of the broker."""

    def __init__(
        self,
        dynamic: DynamicBrokerConfig,
        parts: BrokerParts,
        controller: KafkaController,
        quotas: ConnectionQuotas,
    ) -> None:
        self._dynamic = dynamic
        self._parts = parts
        self._controller = controller
        self._quotas = quotas
        for listener in (self._topic_defaults, self._elections, self._sockets):
            dynamic.on_change(listener)
        self._limit_replication()

    def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        self._dynamic.update(cluster, own)
        self._limit_replication()

    def _topic_defaults(self, _: Config, after: Config) -> None:
        self._parts.topic_configs.set_defaults(topic_defaults(after))
        self._parts.replicas.all_topic_configs_changed()

    def _elections(self, before: Config, after: Config) -> None:
        if after.boolean(UNCLEAN) != before.boolean(UNCLEAN):
            self._controller.set_unclean_election(after.boolean(UNCLEAN))

    def _sockets(self, _: Config, after: Config) -> None:
        self._quotas.configure(views.connection_quotas(after))

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
        """As ``topics_changed`` for all topics, but without elections."""
        read = await self._parts.topic_configs.refresh_all()
        self._parts.replicas.topic_configs_changed(frozenset(read))
