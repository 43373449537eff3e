"""TLS and logins of the blocking connections, by the options ``kafka.security.protocol`` and so on.

Imported only by processes whose options demand TLS or a login: ``ssl``, ``cryptography`` and the
mechanisms take 0.2 s."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

from minikafka.core.security.sasl.client_login import ClientLoggedIn, ClientLogin, LoginFailed
from minikafka.core.security.sasl.exchange import Send
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.core.security.sasl.login_options import MODULES
from minikafka.core.security.sasl.scram import NONCE_BYTES, scram_nonce
from minikafka.kernel.client_security import ClientSecurity
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.network.client_security import client_login, client_tls, uses_sasl, uses_tls
from minikafka.world.real.tls import client_context
from minikafka.world.real.wall_clock import WallClock


def check_security(security: ClientSecurity) -> None:
    """Check what can be checked without the files, which each node has. Raises ConfigError."""
    uses_tls(security)
    if uses_sasl(security):
        if security.sasl_mechanism == GSSAPI:
            raise ConfigError(
                f"sasl.mechanism={GSSAPI}, which is the default, is not supported in Spark; "
                f"supported are {', '.join(MODULES)}"
            )
        client_login(security)


def secured_socket(plain: socket.socket, host: str, security: ClientSecurity) -> socket.socket:
    """Return the socket to use: with a TLS handshake if the protocol demands it.

    The stores are read for each connection, so that those that were replaced count. Raises
    ConfigError, TlsError, and OSError for a handshake that fails."""
    if not uses_tls(security):
        return plain
    settings = client_tls(security, lambda path: Path(path).read_bytes())
    return client_context(settings).wrap_socket(plain, server_hostname=host)


def login_of(security: ClientSecurity, client_id: str) -> BlockingLogin | None:
    """Return the login of a new connection, None if the protocol has none. Raises ConfigError."""
    return BlockingLogin(security, client_id) if uses_sasl(security) else None


class BlockingLogin:
    """The logins of one connection: the first one, and those within its sessions (KIP-368)."""

    def __init__(self, security: ClientSecurity, client_id: str) -> None:
        options = client_login(security)
        if options is None:  # text cannot name a token provider, so there is an endpoint
            from minikafka.spark.oauth_tokens import tokens_of

            self._exchange = tokens_of(security).exchange
        else:
            self._exchange = options.exchange
        self._login = ClientLogin(client_id)
        self._clock = WallClock()
        self._due_ms: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether the session ends soon: log in again before the next request."""
        return self._due_ms is not None and self._clock.monotonic_ms() >= self._due_ms

    def run(self, send: Callable[[bytes], object], receive: Callable[[], memoryview]) -> None:
        """Log in. ``send`` gets frames with their sizes, ``receive`` returns one without.

        Raises KafkaError if the broker refuses, and what ``send`` and ``receive`` raise."""
        nonce = scram_nonce(os.urandom(NONCE_BYTES))
        exchange = self._exchange(nonce, self._clock.wall_ms())
        (action,) = self._login.begin(exchange, random.random())
        while isinstance(action, Send):
            send(action.frame)
            (action,) = self._login.receive(receive(), self._clock.monotonic_ms())
        if isinstance(action, LoginFailed):
            raise KafkaError(action.error.code, action.error.message)
        assert isinstance(action, ClientLoggedIn)
        self._due_ms = action.reauthenticate_at_ms
