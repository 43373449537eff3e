"""Brokers of both kinds replicate over TLS, and clients of every library reach them so."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from minikafka.protocol.schema import Message
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm
from tests.support.security.certificates import Authority, Identity

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PASSWORD = "store-secret"
TOKEN_REQUESTS: tuple[tuple[Message, int], ...] = (
    (CreateDelegationTokenRequest(), 2),
    (CreateDelegationTokenRequest("User", "x"), 3),
    (RenewDelegationTokenRequest(b"hmac"), 2),
    (ExpireDelegationTokenRequest(b"hmac"), 2),
    (DescribeDelegationTokenRequest(), 3),
)


class Files(NamedTuple):
    """The stores of one identity: PEM files, and PKCS12 files for Java."""

    identity: Identity
    key: Path
    chain: Path
    authority: Path
    key_store: Path
    trust_store: Path

    def properties(self) -> dict[str, object]:
        return {
            "ssl.keystore.location": self.key_store,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.location": self.authority,
            "ssl.truststore.type": "PEM",
        }

    def librdkafka(self) -> dict[str, object]:
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.chain),
            "ssl.key.location": str(self.key),
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(str(self.chain), str(self.key))
        return context


def write(home: Path, identity: Identity) -> Files:
    home.mkdir()
    files = Files(
        identity, *(home / name for name in ("key.pem", "chain.pem", "ca.pem", "k.p12", "t.p12"))
    )
    files.key.write_bytes(identity.key_pem())
    files.chain.write_bytes(identity.chain_pem)
    files.authority.write_bytes(identity.authority_pem)
    files.key_store.write_bytes(identity.pkcs12(PASSWORD))
    return files


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Files:
    home = tmp_path_factory.mktemp("stores")
    return write(home / "client", Authority("both").issue("client", ("127.0.0.1",)))


@pytest.fixture(scope="module")
def cluster(mixed: Mixed, client: Files) -> Iterator[MixedCluster]:
    """Brokers 1 and 3 are ours, broker 2 is official. All listeners but PLAINTEXT need a
    certificate; brokers use SSL among themselves."""
    properties = {
        **client.properties(),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
    }
    with mixed(OURS, NEWEST, OURS, properties=properties, more_listeners=("SSL",)) as cluster:
        cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        yield cluster


def everything(cluster: MixedCluster, topic: str, files: Files, count: int) -> set[bytes]:
    """The values of a topic, read over TLS."""
    settings = {
        "bootstrap.servers": cluster.addresses("SSL"),
        "group.id": f"readers-of-{topic}",
        "auto.offset.reset": "earliest",
        **files.librdkafka(),
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: set[bytes] = set()
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count} records came"
        assert message.error() is None
        found.add(message.value() or b"")
    consumer.close()
    return found


@pytest.mark.mission("SEC-101")
@pytest.mark.mission("SEC-122")
def test_both_kinds_replicate_over_tls(cluster: MixedCluster, client: Files) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.addresses("SSL"), "acks": "all", **client.librdkafka()}
    )
    failures: list[object] = []
    values = {f"record {number}".encode() for number in range(300)}
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None] * 300
    assert everything(cluster, "t", client, 300) == values
    for broker_id in (1, 2, 3):
        endpoints = cluster.znode(f"/brokers/ids/{broker_id}")["endpoints"]
        assert f"SSL://{cluster.address(broker_id, 'SSL')}" in endpoints


@pytest.mark.mission("SEC-122")
def test_python_clients_produce_over_tls(cluster: MixedCluster, client: Files) -> None:
    cluster.create_topic("python", [1, 2, 3])
    plain = KafkaProducer(
        bootstrap_servers=cluster.addresses("SSL"),
        security_protocol="SSL",
        ssl_cafile=str(client.authority),
        ssl_certfile=str(client.chain),
        ssl_keyfile=str(client.key),
    )
    plain.send("python", b"kafka-python").get(30)
    plain.close()

    async def play() -> bytes:
        settings = {
            "bootstrap_servers": cluster.addresses("SSL"),
            "security_protocol": "SSL",
            "ssl_context": client.context(),
        }
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("python", b"x" * 500_000)
        reader = AIOKafkaConsumer("python", auto_offset_reset="earliest", **settings)
        async with reader:
            await reader.getone()
            message = await reader.getone()
            return bytes(message.value)

    assert asyncio.run(asyncio.wait_for(play(), 60)) == b"x" * 500_000


@pytest.mark.mission("SEC-122")
def test_java_tools_reach_us_over_tls(cluster: MixedCluster, client: Files, tools: ToolJvm) -> None:
    settings = cluster.directory / "client.properties"
    lines = {"security.protocol": "SSL", **client.properties()}
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    found = tools.run(
        cluster,
        "topics",
        *("--bootstrap-server", cluster.address(1, "SSL"), "--describe", "--topic", "t"),
        *("--command-config", str(settings)),
    )
    assert found.status == 0, found
    assert "PartitionCount: 3" in found.out


@pytest.mark.mission("SEC-123")
def test_a_client_without_a_certificate_gets_nothing(cluster: MixedCluster, client: Files) -> None:
    for files in ({"ssl.ca.location": str(client.authority)}, {}):
        admin = AdminClient(
            {
                "bootstrap.servers": cluster.address(1, "SSL"),
                "security.protocol": "ssl" if files else "plaintext",
                "log_level": 0,
                **files,
            }
        )
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=3)
    log = (cluster.home("broker-1") / "log").read_text()
    assert "authentication_failed" in log
    assert PASSWORD not in log


@pytest.mark.mission("SEC-122")
def test_a_broker_that_returns_follows_over_tls(cluster: MixedCluster, client: Files) -> None:
    for broker_id, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):
        cluster.end_broker(broker_id, number)
        cluster.restart_broker(broker_id)
        cluster.until_ready()
    assert len(everything(cluster, "python", client, 2)) == 2


@pytest.mark.mission("SEC-151")
def test_a_certificate_is_a_login_for_requests_about_tokens(
    cluster: MixedCluster, client: Files
) -> None:
    """No broker has a key of tokens, which all responses say."""

    def responses(broker_id: int) -> list[bytes]:
        host, _, port = cluster.address(broker_id, "SSL").rpartition(":")
        found = []
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            client.context().wrap_socket(plain, server_hostname=host) as connection,
            connection.makefile("rb") as reader,
        ):
            for message, version in TOKEN_REQUESTS:
                api_key = message.SPEC.api_key
                assert api_key is not None
                header = RequestHeader(api_key, version, 7, "test")
                connection.sendall(encode_request(header, message))
                found.append(reader.read(struct.unpack(">i", reader.read(4))[0]))
        return found

    ours = responses(1)
    assert ours == responses(2)
    disabled = struct.pack(">h", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    assert [body[5:7] for body in ours] == [disabled] * len(TOKEN_REQUESTS)
