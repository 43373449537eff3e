"""Connections are counted by what their clients name themselves, and muted ones are known."""

from __future__ import annotations

import pytest

from minikafka.kernel.principals import ANONYMOUS
from minikafka.server.listeners.connected_clients import (
    MAX_TEXT,
    UNNAMED,
    ClientSoftware,
    ConnectedClients,
)


class Connection:
    client_host = "h"
    principal = ANONYMOUS

    def __init__(self) -> None:
        self.software = UNNAMED


@pytest.mark.mission("GLASS-54")
def test_a_connection_counts_once_and_no_longer_when_it_has_left() -> None:
    clients = ConnectedClients()
    first, second, silent = Connection(), Connection(), Connection()
    clients.identify(first, "a", "librdkafka", "2.6.0")
    clients.identify(first, "b", "librdkafka", "2.6.0")
    clients.identify(second, "b", "librdkafka", "2.6.0")
    named = ClientSoftware("b", "librdkafka", "2.6.0")
    assert clients.by_software() == {named: 2}
    before = clients.changes
    clients.left(silent)
    assert clients.changes == before
    clients.left(first)
    assert clients.by_software() == {named: 1}
    clients.left(second)
    assert dict(clients.by_software()) == {}
    assert clients.changes > before


@pytest.mark.mission("GLASS-54")
def test_names_are_cut() -> None:
    clients, connection = ConnectedClients(), Connection()
    clients.identify(connection, "i" * 1000, "n" * 1000, "v" * 1000)
    assert [len(each) for each in connection.software] == [MAX_TEXT] * 3


@pytest.mark.mission("GLASS-54")
def test_a_muted_connection_is_known_until_its_end_or_its_close() -> None:
    clients = ConnectedClients()
    first, second = Connection(), Connection()
    clients.mute(first, 10)
    clients.mute(second, 20)
    clients.mute(second, 30)
    assert [each.until_ms for each in clients.muted(5)] == [10, 30]
    assert len(list(clients.muted(1))) == 1
    clients.unmute(first)
    clients.unmute(first)
    clients.left(second)
    assert clients.num_muted == 0
