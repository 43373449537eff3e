"""TLS below kazoo: what its connection thread waits for."""

from __future__ import annotations

import socket

import pytest

from minikafka.kernel.tls import TlsSettings
from minikafka.world.real.tls import client_context
from minikafka.world.real.zookeeper import _OneSessionHandler


class Decrypted:
    """A TLS connection whose kernel buffer is empty, while a decrypted response is not read yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def pending(self) -> int:
        return 7


@pytest.mark.mission("SEC-153")
def test_a_decrypted_response_is_not_waited_for() -> None:
    handler = _OneSessionHandler(0.3, client_context(TlsSettings()))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Decrypted(ours)
        assert handler.select([connection], [], [], 60) == ([connection], [], [])
        assert handler.select([ours], [], [], 0.01) == ([], [], [])
