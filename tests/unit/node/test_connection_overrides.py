"""``max.connections.per.ip.overrides`` with host names, which are resolved at the edge."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.node.config_views import connection_quotas

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


@pytest.mark.mission("SAFE-22")
async def test_an_unknown_host_is_an_error() -> None:
    network: Any = Names()
    with pytest.raises(ConfigError, match=r"overrides: host c is unknown: Name or service not"):
        await connection_quotas(config("b:6,c:5"), network)
