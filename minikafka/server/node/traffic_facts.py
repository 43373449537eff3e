"""The facts about a broker's clients and throttles that change while a page looks at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from minikafka.core.client_quota import ANY, DEFAULT
from minikafka.core.entity_changes import EntityKey
from minikafka.core.telemetry.subscriptions import CLIENT_INSTANCE_ID
from minikafka.server.listeners.connected_clients import ClientSoftware
from minikafka.server.listeners.server import Server
from minikafka.server.node.entities import BrokerEntities

MAX_ROWS: Final = 50
COUNT_MS: Final = 1_000  # connections by software are not counted more often

Facts: TypeAlias = Mapping[str, Any]


class TrafficFacts:
    """Entities of the kinds ``connections``, ``throttle`` (``clients``, ``replication``) and
    ``client_metrics``, one for each client that pushes.

    ``wall_offset_ms`` added to a time of the monotonic clock is a time since 1970."""

    def __init__(self, entities: BrokerEntities, wall_offset_ms: int) -> None:
        self._entities = entities
        self._wall_offset_ms = wall_offset_ms
        self._counted_ms: int | None = None
        self._counted_changes = 0
        self._clients: list[Facts] = []
        self._num_clients = 0

    def look(self) -> Iterator[tuple[EntityKey, Facts]]:
        yield ("connections", ""), self._connections()
        yield ("throttle", "clients"), self._client_throttles()
        yield ("throttle", "replication"), self._entities.throttles.facts()
        for client in self._entities.telemetry.facts(MAX_ROWS):
            pushed_ms = client["pushed_ms"] + self._wall_offset_ms
            yield ("client_metrics", client[CLIENT_INSTANCE_ID]), {**client, "pushed_ms": pushed_ms}

    # -- connections

    def _connections(self) -> Facts:
        servers = self._entities.servers()
        self._count(servers)
        by_listener: Counter[str] = Counter()
        for server in servers:
            by_listener[server.listener_name] += server.connection_count
        return {
            "total": by_listener.total(),
            "listeners": dict(by_listener),
            "clients": self._clients,
            "num_clients": self._num_clients,
        }

    def _count(self, servers: Sequence[Server]) -> None:
        """Count connections by software again, if any has come or gone and a while has passed."""
        now_ms, changes = (
            self._entities.clock.monotonic_ms(),
            sum(s.clients.changes for s in servers),
        )
        is_old = self._counted_ms is None or now_ms - self._counted_ms >= COUNT_MS
        if not is_old or changes == self._counted_changes:
            return
        self._counted_ms, self._counted_changes = now_ms, changes
        counted: Counter[ClientSoftware] = Counter()
        for server in servers:
            counted.update(server.clients.by_software())
        self._num_clients = len(counted)
        self._clients = [
            {**software._asdict(), "connections": connections}
            for software, connections in counted.most_common(MAX_ROWS)
        ]

    # -- throttles

    def _client_throttles(self) -> Facts:
        servers = self._entities.servers()
        muted = [each for s in servers for each in s.clients.muted(MAX_ROWS)]
        return {
            "enabled": self._entities.client_quotas.enabled,
            "limits": list(islice(self._limits(), MAX_ROWS)),
            "accounts": list(islice(self._accounts(), MAX_ROWS)),
            "num_muted": sum(server.clients.num_muted for server in servers),
            "muted": [
                {
                    "client": each.connection.client_host,
                    "client_id": each.connection.software.client_id,
                    "user": each.connection.principal.name,
                    "until_ms": each.until_ms + self._wall_offset_ms,
                }
                for each in muted[:MAX_ROWS]
            ],
        }

    def _limits(self) -> Iterator[Facts]:
        for key, quota in self._entities.client_quotas.by_key.items():
            for user, client_id, limit in quota.limits.all():
                yield {
                    "key": key,
                    "user": _entity(user),
                    "client_id": _entity(client_id),
                    "limit": limit,
                }

    def _accounts(self) -> Iterator[Facts]:
        """Yield what was used by the accounts with a limit, the last ones first."""
        now_ms = self._entities.clock.monotonic_ms()
        for key, quota in self._entities.client_quotas.rates.items():
            for account, metered in islice(quota.accounts.recent(), MAX_ROWS):
                yield {
                    "key": key,
                    "user": account.user,
                    "client_id": account.client_id,
                    "limit": quota.limits.limit_of(account),
                    "used": round(metered.use.per_second(now_ms)),
                    "throttle_ms": round(metered.throttle_times.average(now_ms)),
                }


def _entity(name: str | None) -> str | None:
    """Return a name as kafka-configs shows it; None where it makes no difference."""
    return "<default>" if name is DEFAULT else None if name == ANY else name
