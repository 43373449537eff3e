"""A Network whose connections to other nodes begin with a SASL login."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from minikafka.core.security.sasl.client_login import ClientLogin, LoginFailed
from minikafka.core.security.sasl.exchange import ClientExchange, Send
from minikafka.core.security.sasl.scram import NONCE_BYTES, scram_nonce
from minikafka.kernel.ports import (
    Buffer,
    Clock,
    Entropy,
    Network,
    OutgoingLogin,
)
from minikafka.network.wrapped_network import WrappedNetwork

# Begins an exchange with a nonce, at a wall-clock time in ms.
NewExchange = Callable[[str, int], ClientExchange]


class ChannelLogin:
    """Drives a ``ClientLogin`` for one connection (an ``OutgoingLogin``)."""

    def __init__(
        self,
        new_exchange: NewExchange,
        clock: Clock,
        entropy: Entropy,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._ready = ready
        self._new_exchange = new_exchange
        self._clock = clock
        self._entropy = entropy
        self._login = ClientLogin(None)
        self._due_ms: int | None = None

    @property
    def in_progress(self) -> bool:
        return self._login.in_progress

    @property
    def is_due(self) -> bool:
        if self._due_ms is None:
            return False
        ready = self._ready()  # asked before it is time, too: a token takes a while to be refreshed
        return ready and self._clock.monotonic_ms() >= self._due_ms

    def preparation(self, host: str) -> Coroutine[Any, Any, None] | None:
        return None

    def begin(self) -> Buffer:
        nonce = scram_nonce(self._entropy.random_bytes(NONCE_BYTES))
        exchange = self._new_exchange(nonce, self._clock.wall_ms())
        (action,) = self._login.begin(exchange, self._entropy.random())
        assert isinstance(action, Send)
        return action.frame

    def receive(self, frame: Buffer) -> Buffer:
        (action,) = self._login.receive(frame, self._clock.monotonic_ms())
        if isinstance(action, Send):
            return action.frame
        if isinstance(action, LoginFailed):
            raise action.error
        self._due_ms = action.reauthenticate_at_ms
        return b""


class SaslNetwork(WrappedNetwork):
    """``new_exchange`` begins the exchange of each login. A re-authentication waits until ``ready``
    returns true, which is asked before each request."""

    def __init__(
        self,
        network: Network,
        new_exchange: NewExchange,
        clock: Clock,
        entropy: Entropy,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(network)
        self._ready = ready
        self._new_exchange = new_exchange
        self._clock = clock
        self._entropy = entropy

    def new_login(self) -> OutgoingLogin | None:
        return ChannelLogin(self._new_exchange, self._clock, self._entropy, self._ready)
