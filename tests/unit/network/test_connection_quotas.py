"""The limits of connections: in all, of one address, and by the descriptors of the process."""

from __future__ import annotations

import pytest

from minikafka.network.connection_quotas import (
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionRefusal,
)


def quotas(limit: int, protected: str | None = None, descriptors: int = 1000) -> ConnectionQuotas:
    config = ConnectionQuotaConfig(max_connections=limit)
    return ConnectionQuotas(config, protected, descriptors)


@pytest.mark.mission("SAFE-22")
def test_max_connections_is_a_limit_of_all_listeners_together() -> None:
    two = quotas(2)
    assert two.add("ONE", "a") is None
    assert two.add("TWO", "b") is None
    assert two.add("ONE", "c") == ConnectionRefusal("max_connections", 2)
    two.remove("c")
    two.remove("a")
    assert two.add("TWO", "c") is None


@pytest.mark.mission("SAFE-22")
def test_the_listener_of_brokers_is_not_counted_against_clients() -> None:
    protected = quotas(1, protected="BROKERS")
    assert protected.add("CLIENTS", "a") is None
    assert protected.add("CLIENTS", "a") == ConnectionRefusal("max_connections", 1)
    assert protected.add("BROKERS", "b") is None


@pytest.mark.mission("SAFE-22")
def test_an_address_has_its_limit_or_that_of_all() -> None:
    config = ConnectionQuotaConfig(
        max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.2": 2, "10.0.0.3": 0}
    )
    found = ConnectionQuotas(config)
    assert found.add("L", "10.0.0.1") is None
    assert found.add("L", "::ffff:10.0.0.1") == ConnectionRefusal("max_connections_per_ip", 1)
    assert [found.add("L", "10.0.0.2") for _ in range(2)] == [None, None]
    assert found.add("L", "10.0.0.2") == ConnectionRefusal("max_connections_per_ip", 2)
    assert found.add("L", "10.0.0.3") == ConnectionRefusal("max_connections_per_ip", 0)


@pytest.mark.mission("SAFE-27")
def test_clients_take_half_of_the_descriptors_and_no_connection_the_last_quarter() -> None:
    few = quotas(2**31 - 1, protected="BROKERS", descriptors=8)
    assert [few.add("CLIENTS", "a", n) for n in range(4)] == [None] * 4
    assert few.add("CLIENTS", "a", 4) == ConnectionRefusal("descriptors", 4)
    assert few.add("BROKERS", "b", 5) is None
    assert few.add("BROKERS", "b", 6) == ConnectionRefusal("descriptors", 6)


@pytest.mark.mission("SAFE-27")
def test_many_open_files_leave_fewer_connections() -> None:
    assert quotas(100, descriptors=8).add("CLIENTS", "a", 6) == ConnectionRefusal("descriptors", 6)


def test_a_closed_connection_is_forgotten() -> None:
    found = quotas(10)
    found.add("L", "a")
    found.remove("a")
    assert found.total == 0
    with pytest.raises(AssertionError):
        found.remove("a")
