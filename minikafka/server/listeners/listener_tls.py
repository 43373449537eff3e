"""The TLS of a listener: its settings, the principals of its clients, and its failed handshakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.events import EventLog, EventRates
from minikafka.kernel.ports import Clock
from minikafka.kernel.principals import ANONYMOUS, Principal
from minikafka.kernel.tls import TlsSettings, peer_certificate


class AuthenticationFailed(Exception):
    """A connection has no principal; the text says why."""


class ListenerTls:
    """See ``kernel.ports.TlsOfListener``. New ``settings`` count for connections to come.

    ``name_of`` returns the principal's name for a certificate (DER), and raises ValueError if it
    must not connect. ``failed`` and ``successful`` count handshakes
    (``{failed,successful}-authentication-total``); failures are logged, bounded for each client."""

    def __init__(
        self, settings: TlsSettings, name_of: Callable[[bytes], str], clock: Clock, log: EventLog
    ) -> None:
        self.settings = settings
        self.failed = 0
        self.successful = 0
        self._name_of = name_of
        self._clock = clock
        self._log = log
        self._events = EventRates(burst=1)

    def handshake_failed(self, host: str, error: OSError) -> None:
        self._failed(host, str(error.strerror or error) or type(error).__name__)

    def principal(self, transport: asyncio.BaseTransport, host: str) -> Principal:
        """Return the principal of a connection whose handshake has succeeded. Raises
        AuthenticationFailed."""
        certificate = peer_certificate(transport)
        principal = ANONYMOUS
        if certificate is not None:
            try:
                principal = Principal(self._name_of(certificate))
            except ValueError as error:
                self._failed(host, str(error))
                raise AuthenticationFailed(str(error)) from error
        self.successful += 1
        return principal

    def _failed(self, host: str, reason: str) -> None:
        self.failed += 1
        suppressed = self._events.admit(host, "authentication", self._clock.monotonic_ms())
        if suppressed is not None:
            self._log.info(
                "authentication_failed", client=host, reason=reason, suppressed=suppressed
            )
