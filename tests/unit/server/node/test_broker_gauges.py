"""Rates over a minute, and the connections of each listener."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.kernel.principals import ANONYMOUS
from minikafka.server.listeners.connected_clients import UNNAMED, ConnectedClients
from minikafka.server.node.broker_gauges import RATE_OVER_MS, ConnectionGauges, RateOverMinute
from tests.support.world.manual_clock import ManualClock


@pytest.mark.mission("GLASS-58")
def test_a_rate_is_that_of_the_last_minute() -> None:
    clock = ManualClock()
    rate = RateOverMinute(clock)
    assert rate(100) == 0
    clock.advance(10_000)
    assert rate(150) == 5
    clock.advance(10_000)
    assert rate(150) == 2.5
    for _ in range(6):
        clock.advance(RATE_OVER_MS // 6)
        rate(150)
    assert rate(150) == 0
    for _ in range(100_000):
        rate(150)
    assert len(rate._marks) < 100


class Connection:
    client_host = "h"
    principal = ANONYMOUS

    def __init__(self) -> None:
        self.software = UNNAMED


class Server:
    listener_name = "CLIENT"
    connection_count = 3
    accepted_count = 10

    def __init__(self) -> None:
        self.clients = ConnectedClients()


@pytest.mark.mission("GLASS-58")
def test_connections_are_shown_by_listener_and_by_software() -> None:
    clock, server = ManualClock(), Server()
    gauges = ConnectionGauges(clock, lambda: cast(Any, [server]))
    sockets = "kafka.server:type=socket-server-metrics"
    of_listener = f"{sockets},listener=CLIENT,networkProcessor=0"
    dict(gauges.counts())
    clock.advance(2_000)
    server.accepted_count, server.connection_count = 20, 5
    shown = dict(gauges.counts())
    assert shown[f"{of_listener}:connection-count"] == 5
    assert shown[f"{of_listener}:connection-creation-rate"] == 5
    assert shown[f"{of_listener}:connection-close-rate"] == 4
    for client_id, name in (("a", "kafka-python"), ("b", "kafka-python"), ("c", "")):
        server.clients.identify(Connection(), client_id, name, "2" if name else "")
    assert dict(gauges.of_software()) == {
        f"{sockets},clientSoftwareName={name},clientSoftwareVersion={version},listener=CLIENT,"
        "networkProcessor=0:connections": count
        for name, version, count in (("kafka-python", "2", 2), ("unknown", "unknown", 1))
    }
