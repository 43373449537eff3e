"""Configuration kept in ZooKeeper: topics, brokers, clients, users, and its change notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.kernel.ports import CreateOp, NoNode, SetOp, Watcher
from minikafka.zookeeper import paths
from minikafka.zookeeper.requests import Requests, raise_error
from minikafka.zookeeper.znodes import ConfigChangeZnode, ConfigZnode


class ConfigStore:
    """``entity_type`` is a child of ``/config``; names are as in the path (sanitized)."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def entity_config(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """Empty when nothing was configured. Raises ``MalformedZnode``."""
        return (await self.entity_configs(entity_type, [entity_name]))[entity_name]

    async def entity_configs(
        self, entity_type: str, entity_names: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """One dict for every name. Raises ``MalformedZnode``."""
        wanted = [paths.config(entity_type, name) for name in entity_names]
        found = await self._requests.get_all(wanted)
        return {
            name: dict(ConfigZnode.decode(entity_type, name, node[0]).config) if node else {}
            for name, node in zip(entity_names, found, strict=True)
        }

    async def topic_config(self, topic: str) -> dict[str, str]:
        """Raises ``MalformedZnode``."""
        return await self.entity_config(paths.TOPIC_CONFIGS, topic)

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Raises ``MalformedZnode``."""
        return await self.entity_configs(paths.TOPIC_CONFIGS, topics)

    async def configured_entities(self, entity_type: str) -> list[str]:
        """Names, sorted."""
        return await self._requests.children(f"{paths.CONFIG}/{entity_type}")

    async def set_entity_config(
        self, entity_type: str, entity_name: str, config: Mapping[str, str]
    ) -> None:
        """Replace all of one entity's configuration. The last writer wins, as in Kafka."""
        node = ConfigZnode(entity_type, entity_name, config)
        while True:
            outcome = await self._requests.multi([SetOp(node.path, node.encode())])
            if not isinstance(outcome.error, NoNode):
                raise_error(outcome.results)
                return
            await self._requests.create_if_missing(node.path.rpartition("/")[0])
            if await self._requests.create(CreateOp(node.path, node.encode())):
                return

    async def announce_config_change(self, entity_path: str) -> None:
        """Tell all brokers that ``entity_path`` (``topics/flights``) was configured anew."""
        await self._requests.create_if_missing(paths.CONFIG_CHANGES)
        node = ConfigChangeZnode(entity_path)
        await self._requests.multi_or_raise([CreateOp(node.path, node.encode(), sequential=True)])

    async def config_changes(self, watcher: Watcher | None = None) -> list[str]:
        """Names of the notices that are there, in order."""
        return await self._requests.children(paths.CONFIG_CHANGES, watcher)

    async def config_change_entities(self, names: Sequence[str]) -> list[str]:
        """The entity paths that these notices name, in order. Raises ``MalformedZnode``."""
        found = await self._requests.get_all([f"{paths.CONFIG_CHANGES}/{n}" for n in names])
        return [ConfigChangeZnode.decode(node[0]).entity_path for node in found if node is not None]
