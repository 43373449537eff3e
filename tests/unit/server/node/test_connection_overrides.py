"""``max.connections.per.ip.overrides`` with host names, which are resolved at the edge."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.listeners.connection_quotas import UNLIMITED, ListenerLimits
from minikafka.server.node.config_views import connection_quotas

NAMES = {"a.example.com": ["10.0.0.1", "2001:db8::1"], "b": ["10.0.0.2"]}


class Names:
    """A Network that only resolves names."""

    async def addresses(self, host: str) -> list[str]:
        if host not in NAMES:
            raise OSError(-2, "Name or service not known")
        return NAMES[host]


def config(overrides: str) -> Config:
    given = {"zookeeper.connect": "z:1", "max.connections.per.ip.overrides": overrides}
    return BROKER_CONFIG.parse(given)


@pytest.mark.mission("SAFE-22")
async def test_the_limit_of_a_host_is_that_of_its_addresses() -> None:
    network: Any = Names()
    found = await connection_quotas(config("a.example.com:5,b:6,10.0.0.3:7,[::1]:8"), network)
    assert found.max_connections_per_ip_overrides == {
        "10.0.0.1": 5,
        "2001:db8::1": 5,
        "10.0.0.2": 6,
        "10.0.0.3": 7,
        "::1": 8,
    }


@pytest.mark.mission("SEC-182")
async def test_a_listener_has_its_own_limits_or_those_of_the_broker() -> None:
    given = {
        "zookeeper.connect": "z:1",
        "listeners": "PLAINTEXT://:1,SSL://:2",
        "max.connections": "9",
        "listener.name.ssl.max.connections": "5",
        "listener.name.ssl.max.connection.creation.rate": "3",
    }
    parsed = BROKER_CONFIG.parse(given)
    assert parsed.without_effect == ()
    network: Any = Names()
    found = await connection_quotas(parsed, network)
    assert found.listeners == {
        "PLAINTEXT": ListenerLimits(9, UNLIMITED),
        "SSL": ListenerLimits(5, 3),
    }
    with pytest.raises(ConfigError, match="must be at least 1"):
        BROKER_CONFIG.parse(given | {"listener.name.ssl.max.connections": "0"})


@pytest.mark.mission("SAFE-22")
async def test_an_unknown_host_is_an_error() -> None:
    network: Any = Names()
    with pytest.raises(ConfigError, match=r"overrides: host c is unknown: Name or service not"):
        await connection_quotas(config("b:6,c:5"), network)
