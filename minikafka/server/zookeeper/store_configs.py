"""Znodes of configuration: topics, brokers, clients and users, and the change notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    SetOp,
    Watcher,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode, Requests, raise_error
from minikafka.server.zookeeper.znodes import ConfigChangeZnode, ConfigZnode

USER_NODE_DEPTH = 3  # slashes in /config/users/<user>, the grandparent of a client id's node
NO_NODE = -1  # the version of an entity that has no configuration


@dataclass(frozen=True, slots=True)
class ConfigNotice:
    """A change notification. ``entity_path`` (``topics/flights``) is None if it is malformed."""

    name: str
    entity_path: str | None
    created_ms: int


class ZkConfigStore:
    """Reads and writes of configurations. An entity type is a child of ``/config``. Entity names
    are sanitized, as they stand in paths."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def entity_config(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """Return the entity's configuration, empty if it has none. Raises ``MalformedZnode``."""
        return (await self.entity_configs(entity_type, [entity_name]))[entity_name]

    async def entity_configs(
        self, entity_type: str, entity_names: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """Return the configuration of every entity by name. Raises ``MalformedZnode``."""
        found = self._requests.each(entity_names, partial(paths.config, entity_type))
        return {
            name: dict(ConfigZnode.decode(entity_type, name, node[0]).config) if node else {}
            async for name, node in found
        }

    async def topic_config(self, topic: str) -> dict[str, str]:
        """Return a topic's configuration, empty if it has none. Raises ``MalformedZnode``."""
        return await self.entity_config(paths.TOPIC_CONFIGS, topic)

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the configuration of every topic by name. Raises ``MalformedZnode``."""
        return await self.entity_configs(paths.TOPIC_CONFIGS, topics)

    async def configured_entities(self, entity_type: str) -> list[str]:
        """Return the names of the entities of a type that have a znode, sorted."""
        return await self._requests.children(f"{paths.CONFIG}/{entity_type}")

    async def set_entity_config(
        self, entity_type: str, entity_name: str, config: Mapping[str, str]
    ) -> None:
        """Replace the whole configuration of an entity. The last writer wins, as in Kafka."""
        node = ConfigZnode(entity_type, entity_name, config)
        while True:
            outcome = await self._requests.multi([SetOp(node.path, node.encode())])
            if not isinstance(outcome.error, NoNode):
                raise_error(outcome.results)
                return
            await self._requests.create_if_missing(node.path.rpartition("/")[0])
            if await self._requests.create(CreateOp(node.path, node.encode())):
                return

    async def entity_config_version(
        self, entity_type: str, entity_name: str
    ) -> tuple[dict[str, str], int]:
        """Return the entity's configuration and the version of its znode, NO_NODE if it has none.
        Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.config(entity_type, entity_name))
        if found is None:
            return {}, NO_NODE
        config = ConfigZnode.decode(entity_type, entity_name, found[0]).config
        return dict(config), found[1].version

    async def change_entity_config(
        self,
        entity_type: str,
        entity_name: str,
        config: Mapping[str, str],
        expected_version: int | None = None,
    ) -> None:
        """Replace the whole configuration of an entity and create a change notification, in one
        multi. Raises ``BadVersion`` if the znode is not at ``expected_version``; with None the last
        writer wins."""
        node = ConfigZnode(entity_type, entity_name, config)
        notify = _notice(f"{entity_type}/{entity_name}")
        create = CreateOp(node.path, node.encode())
        replace = SetOp(node.path, node.encode(), _version_or_any(expected_version))
        exists = expected_version != NO_NODE
        while True:
            outcome = await self._requests.multi([replace if exists else create, notify])
            error = outcome.error
            if error is None:
                return
            if error is not outcome.results[0]:
                if not isinstance(error, NoNode):
                    raise error
                await self._requests.create_if_missing(paths.CONFIG_CHANGES)
            elif isinstance(error, NoNode) and not exists:
                await self._requests.create_if_missing(node.path.rpartition("/")[0])
            elif isinstance(error, NodeExists | NoNode) and expected_version is None:
                exists = isinstance(error, NodeExists)
            elif isinstance(error, NodeExists | NoNode):
                raise BadVersion
            else:
                raise error

    async def configured_children(
        self, entity_type: str, names: Sequence[str], child_type: str
    ) -> list[list[str]]:
        """Return the sorted children of type ``child_type`` of each entity, e.g. the client ids of
        users."""
        parents = [f"{paths.config(entity_type, name)}/{child_type}" for name in names]
        return await self._requests.children_all(parents)

    async def change_or_remove_entity(
        self,
        entity_type: str,
        entity_name: str,
        config: Mapping[str, str],
        expected_version: int,
    ) -> None:
        """Change an entity as ``change_entity_config`` does, but delete its znode if it has neither
        settings nor children, and parents that become empty (Kafka's ``tryCleanQuotaNodes``).
        Raises ``BadVersion``."""
        path = paths.config(entity_type, entity_name)
        if config or await self._requests.children(path):
            await self.change_entity_config(entity_type, entity_name, config, expected_version)
            return
        removals = []
        if expected_version != NO_NODE:
            removals = [DeleteOp(path, expected_version), *await self._empty_parents(path)]
        notify = _notice(f"{entity_type}/{entity_name}")
        outcome = await self._requests.multi([*removals, notify])
        if outcome.error is not None and outcome.error is outcome.results[-1]:
            if not isinstance(outcome.error, NoNode):
                raise outcome.error
            await self._requests.create_if_missing(paths.CONFIG_CHANGES)
            outcome = await self._requests.multi([*removals, notify])
        if isinstance(outcome.error, NoNode | NotEmpty):
            raise BadVersion(path)
        raise_error(outcome.results)

    async def _empty_parents(self, path: str) -> list[DeleteOp]:
        """Return the deletions of ``/config/users/<user>/clients`` and of the user's znode, if they
        contain nothing except ``path``."""
        clients, _, client = path.rpartition("/")
        user = clients.rpartition("/")[0]
        if user.count("/") < USER_NODE_DEPTH or await self._requests.children(clients) != [client]:
            return []
        found = await self._requests.get(user)
        names = user.removeprefix(f"{paths.CONFIG}/").split("/", 1)
        has_no_config = (
            found is not None and not ConfigZnode.decode(names[0], names[1], found[0]).config
        )
        if found is None or not has_no_config or len(await self._requests.children(user)) > 1:
            return [DeleteOp(clients)]
        return [DeleteOp(clients), DeleteOp(user, found[1].version)]

    async def config_changes(self, watcher: Watcher | None = None) -> list[str]:
        """Return the names of the existing change notifications, in order."""
        return await self._requests.children(paths.CONFIG_CHANGES, watcher)

    async def config_change_notices(self, names: Sequence[str]) -> list[ConfigNotice]:
        """Read these change notifications, in order; deleted ones are left out."""
        notices = []
        async for name, node in self._requests.each(names, f"{paths.CONFIG_CHANGES}/{{}}".format):
            if node is not None:
                notices.append(ConfigNotice(name, _entity_path(node[0]), node[1].ctime_ms))
        return notices

    async def delete_config_changes(self, names: Sequence[str]) -> None:
        """Delete old change notifications. Every broker does so, and some may be gone already."""
        await self._requests.delete_existing([f"{paths.CONFIG_CHANGES}/{n}" for n in names])


def _notice(entity_path: str) -> CreateOp:
    return CreateOp(
        ConfigChangeZnode.path, ConfigChangeZnode(entity_path).encode(), sequential=True
    )


def _version_or_any(version: int | None) -> int:
    return -1 if version is None else version


def _entity_path(data: bytes) -> str | None:
    try:
        return ConfigChangeZnode.decode(data).entity_path
    except MalformedZnode:
        return None
