"""Probes of bootstrap servers, which tell why none of them gives the client a valid response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from minikafka.client.config import ClientConfig
from minikafka.core.client.errors import WrongPeer
from minikafka.core.client.wrong_peer import (
    Probe,
    ProbeReply,
    is_complete,
    mismatch,
    probes,
    speaks_kafka,
)
from minikafka.kernel.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from minikafka.kernel.ports import Network

PROBE_LIMIT_MS: Final = 500  # to connect and to get a reply; there are two rounds
_REPLY_BYTES: Final = 4096


class PeerCheck:
    """Finds the servers that a client of this security protocol cannot use.

    A server that accepts connections is probed once: first with a SaslHandshake over ``secured``,
    the client's own transport, and if the reply is not Kafka's, with the other probes over
    ``plain``.
    """

    def __init__(self, config: ClientConfig, plain: Network, secured: Network) -> None:
        self._protocol = config.security_protocol.upper()
        has_login = self._protocol in SASL_PROTOCOLS
        self._probes = probes(config.sasl_mechanism if has_login else "")
        self._plain = plain
        self._secured = secured
        self._found: dict[tuple[str, int], WrongPeer | None] = {}  # bound: the bootstrap servers

    async def examine(self, servers: Iterable[tuple[str, int]]) -> list[WrongPeer | None]:
        """Return for each server that accepts connections why the client cannot use it; None if no
        reason is found."""
        found = await asyncio.gather(*(self._examine(host, port) for host, port in servers))
        return [reason for connected, reason in found if connected]

    async def _examine(self, host: str, port: int) -> tuple[bool, WrongPeer | None]:
        if (host, port) in self._found:
            return True, self._found[host, port]
        login, connected = await _probe(self._secured, host, port, self._probes[Probe.LOGIN])
        replies: dict[Probe, ProbeReply] = {Probe.LOGIN: login}
        over_tls = self._protocol in TLS_PROTOCOLS  # a TLS client cannot connect to a plain peer
        if not speaks_kafka(login) and (connected or over_tls):
            others = [Probe.ZOOKEEPER, Probe.HTTP]
            others.append(Probe.PLAIN_LOGIN if over_tls else Probe.TLS)
            outcomes = await asyncio.gather(
                *(_probe(self._plain, host, port, self._probes[probe]) for probe in others)
            )
            replies |= {probe: reply for probe, (reply, _) in zip(others, outcomes, strict=True)}
            connected = connected or any(made for _, made in outcomes)
        found = mismatch(f"{host}:{port}", self._protocol, replies)
        if connected:
            self._found[host, port] = found
        return connected, found


async def _probe(network: Network, host: str, port: int, probe: bytes) -> tuple[ProbeReply, bool]:
    """Return the reply to a probe, and whether a connection was made."""
    receiver = _Receiver()
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(PROBE_LIMIT_MS / 1000):
            transport, _ = await network.connect(lambda: receiver, host, port)
            transport.write(probe)
            await receiver.done.wait()
    except TimeoutError:
        pass
    except OSError as error:
        return ProbeReply(b"", str(error) or type(error).__name__), False
    finally:
        if transport is not None:
            transport.abort()
    reply = ProbeReply(bytes(receiver.data), receiver.error, receiver.closed)
    return reply, transport is not None


class _Receiver(asyncio.BufferedProtocol):
    """Collects the first bytes of a peer; ``done`` is set when they suffice or the peer closes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.error = ""
        self.closed = False
        self.done = asyncio.Event()
        self._buffer = bytearray(_REPLY_BYTES)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if len(self.data) < _REPLY_BYTES:
            self.data += self._buffer[:nbytes]
        if is_complete(self.data):
            self.done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = str(exc) if exc is not None else ""
        self.closed = True
        self.done.set()
