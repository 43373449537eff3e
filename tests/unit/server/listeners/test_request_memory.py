"""One memory for the queued requests of all connections."""

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.listeners.memory_budget import RequestMemory
from minikafka.server.node import config_views


@pytest.mark.mission("SAFE-41")
@pytest.mark.parametrize("limit", [-1, 0])
def test_a_limit_that_is_not_positive_is_none(limit: int) -> None:
    memory = RequestMemory(limit)
    memory.add(1 << 40)
    assert not memory.is_full


def test_a_waiting_callback_is_called_once_when_bytes_are_free() -> None:
    memory, woken = RequestMemory(10), list[str]()

    def wake() -> None:
        woken.append("woken")

    def forgotten() -> None:
        woken.append("forgotten")

    memory.add(12)
    assert memory.wait(wake)
    assert not memory.wait(wake)
    assert memory.wait(forgotten)
    memory.forget(forgotten)
    memory.add(-2)
    assert memory.is_full
    assert woken == []
    memory.add(-1)
    memory.add(-1)
    assert woken == ["woken"]


def test_the_largest_request_must_fit() -> None:
    keys = {"zookeeper.connect": "z:1", "socket.request.max.bytes": "1000"}
    config = BROKER_CONFIG.parse(keys | {"queued.max.request.bytes": "999"})
    with pytest.raises(ConfigError, match="must be larger or equal to"):
        config_views.memory_budget(config)
    config = BROKER_CONFIG.parse(keys | {"queued.max.request.bytes": "1000"})
    memory = config_views.memory_budget(config).requests
    memory.add(1000)
    assert memory.is_full
