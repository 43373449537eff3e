"""The message about brokers that cannot be reached, or say nothing, is printed once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from minikafka.cli.connect import PATIENCE_S, FirstContact, tell_of_missing_topic
from minikafka.client import ClientConfig, Consumer
from minikafka.kernel.ports import Listener, ProtocolFactory
from minikafka.kernel.tls import TlsSettings
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping


class Received(asyncio.BufferedProtocol):
    """``lost`` counts how often its connection was lost."""

    def __init__(self) -> None:
        self.received = self.lost = 0

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


class Wire(asyncio.Transport):
    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast(asyncio.BufferedProtocol, protocol)


class Wires:
    """A Network where port 1 refuses, port 2 is silent, and port 3 responds; port 4 ends the TLS
    handshake, and port 5 takes connections and is silent."""

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
    ) -> Listener:
        raise OSError

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        if port == 1:
            raise ConnectionRefusedError(111, "Connection refused")
        if port == 4:
            raise ConnectionResetError
        if port == 2:
            await asyncio.sleep(1_000)
        wire = Wire(factory())
        if port == 3:
            wire.protocol.buffer_updated(4)
        return wire, wire.protocol


async def connect(network: FirstContact, port: int) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S + 1):
            await network.connect(Received, "h", port)
    except OSError:
        return


@pytest.mark.parametrize(
    ("ports", "limit_ms", "told"),
    [
        ((1, 1, 2, 1), 30_000, "minikafka: h:1: Connection refused; trying on for 30 s\n"),
        ((2, 1), 2_500, "minikafka: h:2: no answer; trying on for 2.5 s\n"),
        ((1,), None, "minikafka: h:1: Connection refused; trying on\n"),
        ((4,), None, "minikafka: h:4: the peer has closed the connection; trying on\n"),
        ((3, 1, 2), 30_000, ""),
    ],
)
def test_only_the_first_failure_is_printed(
    ports: tuple[int, ...], limit_ms: int | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @jumping
    async def scenario() -> None:
        network = FirstContact(cast(Any, Wires()), limit_ms)
        for port in ports:
            await connect(network, port)

    scenario()
    assert capsys.readouterr().err == told


@pytest.mark.mission("GLASS-152")
def test_a_terminal_shows_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    @jumping
    async def scenario() -> None:
        network = FirstContact(cast(Any, Wires()), 30_000)
        for _ in range(25):
            await connect(network, 1)
            await asyncio.sleep(1)

    scenario()
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith("trying on for 30 s")
    left = [line.removeprefix("minikafka: h:1: Connection refused; ") for line in others]
    assert left == ["25 s left", "20 s left", "15 s left", "10 s left"]


def test_a_client_that_ends_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    @jumping
    async def scenario() -> None:
        waiting = asyncio.ensure_future(connect(FirstContact(cast(Any, Wires()), 30_000), 2))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])

    scenario()
    assert capsys.readouterr().err == ""


@pytest.mark.mission("GLASS-163")
@pytest.mark.parametrize("end", ["answer", "loss"])
def test_a_peer_that_accepts_and_says_nothing_is_reported_until_it_does(
    end: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    owner = Received()

    @jumping
    async def scenario() -> None:
        network = FirstContact(cast(Any, Wires()), 30_000)
        made, watched = await network.connect(lambda: owner, "h", 5)
        await asyncio.sleep(16)
        if end == "answer":
            watched.buffer_updated(4)
            assert cast(Wire, made).protocol is owner  # that of the channel, without a detour
            await connect(network, 1)  # the client knows others
        else:
            watched.connection_lost(None)
        await asyncio.sleep(10)

    scenario()
    silent = "minikafka: h:5: connected, but no answer; "
    told = [line.removeprefix(silent) for line in capsys.readouterr().err.splitlines()]
    assert told == ["trying on for 30 s", "20 s left", "15 s left"]
    assert (owner.received, owner.lost) == ((4, 0) if end == "answer" else (0, 1))


@jumping
@pytest.mark.parametrize("on_terminal", [True, False])
async def test_a_topic_that_brokers_create_only_now_is_told_of_once(
    on_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    world = client_world()
    cluster = FakeCluster(world)
    cluster.auto_create = True
    cluster.create("known", 1)
    await cluster.start()
    async with Consumer(world, ClientConfig(bootstrap_servers=cluster.bootstrap)) as consumer:
        for topic in ("known", "misspelt"):
            tell_of_missing_topic(consumer, topic)
            await consumer.assign_topics(topic)
    line = "minikafka: there is no topic misspelt yet; the brokers may create it now\n"
    assert capsys.readouterr().err == (line if on_terminal else "")
