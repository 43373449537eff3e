"""The limits of connections: in all, of one address, and by the descriptors of the process."""

from __future__ import annotations

import pytest

from minikafka.core.client_quota import RateConfig
from minikafka.server.listeners.connection_quotas import (
    MAX_WAITING,
    ConnectionQuotaConfig,
    ConnectionQuotas,
    ConnectionRefusal,
    ConnectionThrottle,
    ListenerLimits,
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
    two.remove("ONE", "c")
    two.remove("ONE", "a")
    assert two.add("TWO", "c") is None


@pytest.mark.mission("SAFE-22")
def test_the_listener_of_brokers_is_not_counted_against_clients() -> None:
    protected = quotas(1, protected="BROKERS")
    assert protected.add("CLIENTS", "a") is None
    assert protected.add("CLIENTS", "a") == ConnectionRefusal("max_connections", 1)
    assert protected.add("BROKERS", "b") is None


@pytest.mark.mission("SAFE-22")
@pytest.mark.mission("SEC-103")
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
    found.remove("L", "a")
    assert found.total == 0
    with pytest.raises(AssertionError):
        found.remove("L", "a")


def test_defaults_are_those_of_kafka() -> None:
    assert ConnectionQuotaConfig() == ConnectionQuotaConfig(2147483647, 2147483647, {})
    assert ConnectionQuotas().add("L", "a") is None


def test_a_connection_without_a_descriptor_takes_no_reserved_one() -> None:
    assert ConnectionQuotas(None, "BROKERS", descriptors=1).add("BROKERS", "a") is None


def test_new_limits_apply_to_new_connections() -> None:
    found = quotas(1)
    assert found.add("L", "a") is None
    found.configure(ConnectionQuotaConfig(max_connections=2))
    assert found.add("L", "a") is None
    assert found.add("L", "a") == ConnectionRefusal("max_connections", 2)


def test_each_closed_connection_makes_room_for_one_of_its_address() -> None:
    found = ConnectionQuotas(ConnectionQuotaConfig(max_connections_per_ip=3))
    assert [found.add("L", "a") for _ in range(3)] == [None] * 3
    found.remove("L", "a")
    assert found.add("L", "a") is None
    assert found.add("L", "a") == ConnectionRefusal("max_connections_per_ip", 3)


def test_addresses_without_connections_take_no_memory() -> None:
    found = quotas(10)
    found.add("L", "a")
    found.remove("L", "a")
    assert not found._by_host


def test_only_a_mapped_ipv4_address_is_shortened() -> None:
    found = ConnectionQuotas(ConnectionQuotaConfig(max_connections_per_ip=1))
    assert found.add("L", "::ffff:a00:1") is None
    assert found.add("L", "a00:1") is None


def rated(limit: int, windows: int = 2) -> ConnectionQuotas:
    config = ConnectionQuotaConfig(max_connection_creation_rate=limit)
    return ConnectionQuotas(config, "BROKERS", rates=RateConfig(windows, 1))


@pytest.mark.mission("SEC-104")
def test_a_listener_serves_its_connections_one_after_the_other() -> None:
    """With two windows, five a second: the sixth waits for 0.2 s, as would an acceptor."""
    quotas = rated(5)
    for _ in range(5):
        assert quotas.throttle("ONE", "a", 0) is None
    delays = [quotas.throttle("ONE", "a", 0) for _ in range(3)]
    assert all(isinstance(delay, ConnectionThrottle) and delay.is_accepted for delay in delays)
    waits = [delay.delay_ms for delay in delays if isinstance(delay, ConnectionThrottle)]
    assert waits[0] == 200
    assert waits == sorted(waits)
    assert quotas.throttle("BROKERS", "a", 0) is None


@pytest.mark.mission("SEC-104")
def test_the_rate_of_the_broker_is_that_of_all_listeners_but_the_protected_one() -> None:
    quotas = rated(2)
    assert quotas.throttle("ONE", "a", 0) is None
    assert quotas.throttle("TWO", "a", 0) is None
    assert quotas.throttle("BROKERS", "a", 0) is None
    assert quotas.throttle("BROKERS", "a", 0) is None
    assert quotas.throttle("TWO", "a", 0) == ConnectionThrottle(500, True)


@pytest.mark.mission("SEC-104")
def test_no_delay_is_longer_than_a_window_and_few_connections_wait() -> None:
    quotas = rated(1)
    assert quotas.throttle("ONE", "a", 0) is None
    last = 0
    for _ in range(MAX_WAITING):
        throttle = quotas.throttle("ONE", "a", 0)
        assert isinstance(throttle, ConnectionThrottle)
        assert 0 < throttle.delay_ms - last <= 1_000
        last = throttle.delay_ms
    refused = ConnectionRefusal("max_connection_creation_rate", 1)
    assert quotas.throttle("ONE", "a", 0) == refused
    assert isinstance(quotas.throttle("ONE", "a", 1_000), ConnectionThrottle)
    assert quotas.throttle("ONE", "a", 200_000) is None


@pytest.mark.mission("SEC-148")
def test_an_address_has_its_rate_or_that_of_all() -> None:
    quotas = ConnectionQuotas(rates=RateConfig(2, 1))
    quotas.limit_ip(None, 1)
    quotas.limit_ip("b", 2)
    assert quotas.throttle("ONE", "::ffff:1.2.3.4", 0) is None
    assert quotas.throttle("ONE", "1.2.3.4", 0) == ConnectionThrottle(1_000, False)
    assert quotas.throttle("ONE", "b", 0) is None
    assert quotas.throttle("ONE", "b", 0) is None
    assert quotas.throttle("ONE", "b", 0) == ConnectionThrottle(500, False)
    # What was refused does not count.
    assert quotas.throttle("ONE", "b", 1_500) is None
    quotas.limit_ip(None, None)
    assert quotas.throttle("ONE", "1.2.3.4", 0) is None


@pytest.mark.mission("SEC-148")
def test_connections_that_an_address_may_not_open_leave_the_rate_of_the_broker() -> None:
    quotas = rated(2)
    quotas.limit_ip("a", 1)
    assert quotas.throttle("ONE", "a", 0) is None
    for _ in range(5):
        throttle = quotas.throttle("ONE", "a", 0)
        assert isinstance(throttle, ConnectionThrottle)
        assert not throttle.is_accepted
    assert quotas.throttle("ONE", "b", 0) is None


def limited(of_one: ListenerLimits, **of_all: int) -> ConnectionQuotas:
    """Limits of the listener ONE, and those of the broker."""
    config = ConnectionQuotaConfig(listeners={"ONE": of_one}, **of_all)  # type: ignore[arg-type]
    return ConnectionQuotas(config, "BROKERS", rates=RateConfig(2, 1))


@pytest.mark.mission("SEC-182")
def test_a_listener_has_its_own_limit_of_connections() -> None:
    quotas = limited(ListenerLimits(max_connections=1), max_connections=3)
    assert quotas.add("ONE", "a") is None
    assert quotas.add("ONE", "b") == ConnectionRefusal("max_connections", 1)
    quotas.remove("ONE", "b")
    assert quotas.add("TWO", "b") is None
    quotas.remove("ONE", "a")
    assert quotas.add("ONE", "b") is None
    assert quotas.add("TWO", "b") is None
    assert quotas.add("TWO", "b") == ConnectionRefusal("max_connections", 3)


@pytest.mark.mission("SEC-182")
def test_the_listener_of_brokers_has_the_broker_s_limit_for_itself() -> None:
    quotas = limited(ListenerLimits(), max_connections=2)
    assert [quotas.add("TWO", "a") for _ in range(2)] == [None, None]
    assert [quotas.add("BROKERS", "a") for _ in range(2)] == [None, None]
    assert quotas.add("BROKERS", "a") == ConnectionRefusal("max_connections", 2)


@pytest.mark.mission("SEC-182")
def test_a_listener_has_its_own_rate() -> None:
    quotas = limited(ListenerLimits(max_connection_creation_rate=2))
    assert [quotas.throttle("ONE", "a", 0) for _ in range(2)] == [None, None]
    assert quotas.throttle("ONE", "a", 0) == ConnectionThrottle(500, True)
    assert [quotas.throttle("TWO", "a", 0) for _ in range(20)] == [None] * 20


@pytest.mark.mission("SEC-182")
def test_the_slower_of_two_rates_decides() -> None:
    faster = ListenerLimits(max_connection_creation_rate=100)
    quotas = limited(faster, max_connection_creation_rate=2)
    assert [quotas.throttle("ONE", "a", 0) for _ in range(2)] == [None, None]
    assert quotas.throttle("ONE", "a", 0) == ConnectionThrottle(500, True)


@pytest.mark.mission("SEC-182")
def test_listeners_without_connections_take_no_memory() -> None:
    found = quotas(10)
    found.add("L", "a")
    found.remove("L", "a")
    assert not found._by_listener
