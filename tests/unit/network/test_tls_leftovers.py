"""Connections with TLS that have ended leave memory at once, and wait for no garbage collection."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from minikafka.kernel.tls import TlsSettings
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.server.listeners.listener_tls import ListenerTls
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab, framed
from tests.support.security.certificates import Authority
from tests.support.world.recording_log import RecordingLog


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Held:
    """An object that a connection holds. Compiled classes have no weak references themselves."""


async def closed_channel(lab: Lab, port: int, trusted: bytes) -> weakref.ref[RecordingLog]:
    """Return the log of a channel that has received a response without a request."""
    log = RecordingLog()
    channel = Channel(lab.clock, "broker", None, ChannelConfig(), log)
    transport, _ = await lab.network.connect(
        lambda: channel, "127.0.0.1", port, TlsSettings(trusted=trusted)
    )
    transport.write(framed(b"hello"))
    await lab.until(lambda: channel.close_reason is not None)
    return weakref.ref(log)


@pytest.mark.mission("SAFE-81")
async def test_both_ends_of_a_connection_with_tls_are_no_cycles(
    lab: Lab, no_collection: None
) -> None:
    ended: list[weakref.ref[Held]] = []

    def echo(connection: ServerConnection, frame: memoryview) -> None:
        connection.overlapping = held = Held()
        ended.append(weakref.ref(held))
        connection.open_slot(len(frame)).send(framed(bytes(frame)))

    identity = Authority().issue("broker", ("127.0.0.1",))
    settings = TlsSettings(key=identity.key_pem(), chain=identity.chain_pem)
    server = await lab.serve(echo, tls=ListenerTls(settings, lambda _: "", lab.clock, lab.log))
    log = await closed_channel(lab, server.port, identity.authority_pem)
    await lab.until(lambda: server.connection_count == 0)
    for _ in range(100):
        if log() is None and ended[0]() is None:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a connection is in a cycle")
