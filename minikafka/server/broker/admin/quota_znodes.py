"""Reads the quotas of users, client ids and IP addresses from ZooKeeper, and applies them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from minikafka.core.client_quota import ANY
from minikafka.core.security.client_quotas import DEFAULT_NAME, IP_KEYS, desanitized
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Network
from minikafka.server.broker.quotas import ClientQuotas
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

(CONNECTION_RATE,) = IP_KEYS
_NAME = r"(?!\.\.?(?:/|$))[^/]+"
_ENTITY: Final = re.compile(rf"(?:users|clients|ips)/{_NAME}|users/{_NAME}/clients/{_NAME}")


class IpLimits(Protocol):
    """The rates of new connections by address (``ConnectionQuotas``)."""

    def limit_ip(self, address: str | None, rate: int | None) -> None: ...

    def clear_ip_limits(self) -> None: ...


class QuotaZnodes:
    """Applies the quotas in ZooKeeper to this broker (Kafka's ``QuotaConfigHandler`` and
    ``IpConfigHandler``).

    A znode that cannot be decoded, and an address that cannot be resolved, are logged; their
    entities have no limits then."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        quotas: ClientQuotas,
        ips: IpLimits,
        network: Network,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._ips = ips
        self._network = network
        self._log = log or event_log("client-quotas")

    async def read(self, entity_paths: Collection[str]) -> None:
        """Read and apply the quotas of these entities, e.g. ``users/alice/clients/app``. Raises
        CoordinationError."""
        known = [path for path in sorted(entity_paths) if _ENTITY.fullmatch(path)]
        for path, config in (await self._read(known)).items():
            if path.startswith(f"{paths.IP_CONFIGS}/"):
                self._limit_addresses(await self._addresses(path), config)
            else:
                self._limit_client(path, config)

    async def read_all(self) -> None:
        """Read all quotas, and apply them instead of those before. Raises CoordinationError."""
        store = self._store()
        users = await store.configured_entities(paths.USER_CONFIGS)
        entities = [f"{paths.USER_CONFIGS}/{user}" for user in users]
        clients = await store.configured_children(paths.USER_CONFIGS, users, paths.CLIENT_CONFIGS)
        for user, of_user in zip(users, clients, strict=True):
            entities += [f"{paths.USER_CONFIGS}/{user}/clients/{client}" for client in of_user]
        for kind in (paths.CLIENT_CONFIGS, paths.IP_CONFIGS):
            entities += [f"{kind}/{name}" for name in await store.configured_entities(kind)]
        configs = await self._read(entities)
        addresses = {
            path: await self._addresses(path)
            for path, config in configs.items()
            if config and path.startswith(f"{paths.IP_CONFIGS}/")
        }
        self._quotas.clear()
        self._ips.clear_ip_limits()
        for path, config in configs.items():
            if path in addresses:
                self._limit_addresses(addresses[path], config)
            elif config:
                self._limit_client(path, config)

    async def _read(self, entities: list[str]) -> dict[str, Mapping[str, str]]:
        """Return the configuration of each entity by its path. Raises CoordinationError."""
        found: dict[str, Mapping[str, str]] = {}
        for kind in dict.fromkeys(path.partition("/")[0] for path in entities):
            names = [path.partition("/")[2] for path in entities if path.startswith(f"{kind}/")]
            configs = await self._read_kind(kind, names)
            found |= {f"{kind}/{name}": config for name, config in configs.items()}
        return found

    async def _read_kind(self, kind: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Read the configurations of entities of one kind; if a znode cannot be decoded, read each
        half."""
        try:
            return await self._store().entity_configs(kind, names)
        except MalformedZnode as error:
            if len(names) == 1:
                entity = f"{kind}/{names[0]}"
                self._log.error("quota_znode_malformed", entity=entity, error=str(error))
                return {names[0]: {}}
        half = len(names) // 2
        return await self._read_kind(kind, names[:half]) | await self._read_kind(kind, names[half:])

    def _limit_client(self, path: str, config: Mapping[str, str]) -> None:
        match [desanitized(part) for part in path.split("/")]:
            case ["users", user]:
                self._quotas.set(user, ANY, config)
            case ["users", user, "clients", client_id]:
                self._quotas.set(user, client_id, config)
            case ["clients", client_id]:
                self._quotas.set(ANY, client_id, config)

    async def _addresses(self, path: str) -> list[str | None]:
        """Return the addresses of ``ips/<name>``. None stands for all others."""
        name = path.partition("/")[2]
        if name == DEFAULT_NAME:
            return [None]
        try:
            return [*await self._network.addresses(desanitized(name) or name)]
        except OSError as error:
            self._log.error("quota_address_not_resolved", entity=path, error=str(error))
            return []

    def _limit_addresses(self, addresses: Iterable[str | None], config: Mapping[str, str]) -> None:
        text = config.get(CONNECTION_RATE)
        rate: int | None = None
        if text is not None:
            try:
                rate = int(text)
            except ValueError:
                self._log.error("quota_ignored", key=CONNECTION_RATE, value=text)
        for address in addresses:
            self._ips.limit_ip(address, rate)
