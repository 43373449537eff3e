"""Verbs at an address where no broker of their protocol listens: they say what does, and how to
connect."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.aio import Admin, Consumer, KafkaError, Producer
from tests.support.cluster.real_cluster import run_verb
from tests.support.security.certificates import Authority
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = pytest.mark.cluster

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@contextlib.contextmanager
def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server in a thread."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls))
    loop.set_exception_handler(lambda _, __: None)  # of handshakes that fail
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait for the end of a line, as many HTTP servers do: a frame of Kafka's gets no reply."""
    with contextlib.suppress(ConnectionError):
        await reader.readline()
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
        writer.close()


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read(4)
        writer.close()


async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
        await reader.read()
        writer.close()


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    identity = Authority("ca").issue("localhost")
    file = tmp_path / "server.pem"
    file.write_bytes(identity.key_pem() + identity.chain_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def refused(address: str, *verb: str) -> str:
    done = run_verb(*verb, "--bootstrap-server", address)
    assert done.returncode == 1
    assert "trying on" not in done.stderr
    return str(done.stderr).strip()


VERBS = [
    ("topics", "list"),
    ("groups", "describe", "--group", "g"),
    ("consume", "--topic", "t"),
    ("consume", "--topic", "t", "--group", "g"),
    ("perf", "produce", "--topic", "t", "--num-records", "1"),
    ("transactions", "list"),
    ("verify",),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_tls_listener(tls: ssl.SSLContext, verb: tuple[str, ...]) -> None:
    with listening(nothing, tls) as address:
        assert f"{address} speaks TLS: set security.protocol=SSL" in refused(address, *verb)


def test_an_http_server() -> None:
    with listening(http) as address:
        assert refused(address, "topics", "list") == (
            f"minikafka: NETWORK_EXCEPTION: {address} is an HTTP server, such as a page, a "
            "registry or a debug listener: bootstrap.servers must name listeners of brokers"
        )


def test_zookeeper(own_zookeeper: ZookeeperProcess) -> None:
    address = own_zookeeper.connect
    assert f"{address} is a ZooKeeper server" in refused(address, "topics", "list")


def test_a_tls_client_at_http(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    with listening(http) as address:
        done = run_verb(
            "topics", "list", "--bootstrap-server", address, "--command-config", str(config)
        )
    assert done.returncode == 1
    assert f"{address} is an HTTP server" in done.stderr


def test_a_certificate_of_an_unknown_authority(tls: ssl.SSLContext, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    with listening(nothing, tls) as address:
        done = run_verb(
            "topics", "list", "--bootstrap-server", address, "--command-config", str(config)
        )
    assert done.returncode == 1
    assert "ssl.truststore.location must have the authority" in done.stderr
    assert done.stderr.endswith("(in the file of --command-config)\n")


@pytest.mark.parametrize(
    ("serve", "said"), [(closes, "closes each connection"), (greets, "not respond as a broker")]
)
def test_a_peer_of_another_protocol(serve: Serve, said: str) -> None:
    with listening(serve) as address:
        assert f"{address} " in refused(address, "topics", "list")
        assert said in refused(address, "topics", "list")


def test_a_listener_that_wants_a_certificate(tmp_path: Path) -> None:
    identity = Authority("ca").issue("localhost")
    (tmp_path / "server.pem").write_bytes(identity.key_pem() + identity.chain_pem)
    (tmp_path / "ca.pem").write_bytes(identity.authority_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
    )
    with listening(nothing, context) as address:
        done = run_verb(
            "topics", "list", "--bootstrap-server", address, "--command-config", str(config)
        )
    assert done.returncode == 1
    assert "ssl.keystore.location (in the file of --command-config)" in done.stderr


def test_one_broker_is_down_and_another_one_speaks_tls(tls: ssl.SSLContext) -> None:
    with listening(nothing, tls) as address:
        servers = f"{address},127.0.0.1:1"
        done = run_verb("topics", "list", "--bootstrap-server", servers)
    assert done.returncode == 1
    assert f"{address} speaks TLS" in done.stderr


async def administer(address: str) -> None:
    async with Admin(address) as admin:
        await admin.list_topics()


async def produce(address: str) -> None:
    async with Producer(address) as producer:
        await producer.send("t", b"value")


async def consume(address: str) -> None:
    async with Consumer(address, group_id="g", topics=["t"]) as consumer:
        await consumer.poll(60_000)


@pytest.mark.parametrize("use", [administer, produce, consume])
def test_clients_of_applications(use: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    with listening(http) as address, pytest.raises(KafkaError, match="is an HTTP server"):
        asyncio.run(use(address))


def test_one_broker_among_wrong_addresses(own_zookeeper: ZookeeperProcess) -> None:
    """Only the address that is right counts, though it does not respond as yet."""
    with listening(nothing) as silent:
        servers = f"{own_zookeeper.connect},{silent}"

        async def ask() -> None:
            async with Admin(servers, default_api_timeout_ms=4_000) as admin:
                await admin.list_topics()

        with pytest.raises(KafkaError) as caught:
            asyncio.run(ask())
        assert "ZooKeeper" not in str(caught.value)
