"""What of a running broker follows its configuration: topics, elections, sockets, throttles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from minikafka.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.controller.kafka_controller import KafkaController
from minikafka.kernel.config import Config
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.kernel.settings import topic_defaults
from minikafka.network.server import Server
from minikafka.node.wiring import BrokerParts

UNCLEAN = "unclean.leader.election.enable"
MAX_CONNECTIONS = "max.connections"


class ConfigEffects:
    """An ``Effect`` of ``config_changes``. Before ``attach`` only ``dynamic`` hears of anything:
    the parts are made from what it says then."""

    def __init__(self, dynamic: DynamicBrokerConfig) -> None:
        self.dynamic = dynamic
        self._parts: BrokerParts | None = None
        self._controller: KafkaController | None = None

    def attach(
        self,
        parts: BrokerParts,
        controller: KafkaController,
        servers: Callable[[], Iterable[Server]],
    ) -> None:
        self._parts = parts
        self._controller = controller

        def topics(_: Config, after: Config) -> None:
            parts.topic_configs.set_defaults(topic_defaults(after))
            parts.replicas.all_topic_configs_changed()

        def elections(before: Config, after: Config) -> None:
            if after.boolean(UNCLEAN) != before.boolean(UNCLEAN):
                controller.set_unclean_election(after.boolean(UNCLEAN))

        def sockets(_: Config, after: Config) -> None:
            for server in servers():
                server.set_max_connections(after.integer(MAX_CONNECTIONS))

        for listener in (topics, elections, sockets):
            self.dynamic.on_change(listener)
        self._limit_replication()

    def broker_changed(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        self.dynamic.update(cluster, own)
        self._limit_replication()

    def _limit_replication(self) -> None:
        """These stand in no file, and are part of no ``Config`` therefore."""
        if self._parts is not None:
            rate = self.dynamic.run_time
            self._parts.replicas.throttles.limit(
                rate(LEADER_RATE), rate(FOLLOWER_RATE), rate(LOG_DIRS_RATE)
            )

    async def topics_changed(self, topics: Collection[str] | None) -> None:
        """Partitions here take over their new settings. The controller looks again at topics that
        wait for a leader, wherever they are: an unclean one may be allowed now."""
        if self._parts is None or self._controller is None:
            return
        read = await self._parts.topic_configs.refresh(topics)
        self._parts.replicas.topic_configs_changed(frozenset(read))
        if self._controller.is_active:
            for topic in sorted(topics or ()):
                self._controller.unclean_election_enabled(topic)
