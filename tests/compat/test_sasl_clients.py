"""Clients of every library log in with each mechanism, over plain listeners and over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from minikafka.core.client.consumer.fetch_requests import (
    FETCH_VERSION,
    FetchLimits,
    FetchPosition,
    fetch_request,
    fetched_partitions,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.security_settings import SECURED_HANDLERS
from minikafka.spark.client_options import client_options
from minikafka.spark.connection import BlockingConnection
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.security.certificates import Authority
from tests.support.security.sasl_brokers import (
    ESCAPED_USER,
    LISTENERS,
    SCRAM_PASSWORD,
    SCRAM_USER,
    TOKEN_USER,
    bearer_token,
    credentials,
    sasl_properties,
    tls_properties,
)
from tests.support.security.signed_tokens import EC, claims, key_set, signed
from tests.support.zookeeper.process import running_zookeeper

pytestmark = [pytest.mark.compat, pytest.mark.xdist_group("sasl")]

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
WITH_PASSWORDS = MECHANISMS[:3]
TOPIC = "t"
KAFKAJS_LOGIN = Path(__file__).parents[1] / "support" / "clients" / "login.js"
# The listener that validates signed tokens. The other one accepts unsecured ones.
SIGNED = "SASL_SSL"
# Sessions last two seconds with this listener and mechanism.
SESSIONS = ("SASL_PLAINTEXT", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    home = tmp_path_factory.mktemp("sasl")
    identity = Authority().issue("broker", ("127.0.0.1",))
    (home / "keys.json").write_bytes(key_set(EC))
    signed_tokens = f"listener.name.{SIGNED.lower()}.oauthbearer.sasl"
    properties = {
        **sasl_properties(),
        f"{signed_tokens}.server.callback.handler.class": SECURED_HANDLERS[0],
        f"{signed_tokens}.oauthbearer.jwks.endpoint.url": (home / "keys.json").as_uri(),
        **tls_properties(home / "stores", identity),
        f"listener.name.{'.'.join(SESSIONS).lower()}.connections.max.reauth.ms": 2000,
        "debug.listener": f"HTTP://127.0.0.1:{free_ports(1)[0]}",
    }
    with (
        running_zookeeper() as zookeeper,
        MixedCluster(home, zookeeper.connect, (OURS,), properties, {}, LISTENERS) as cluster,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            for user in (SCRAM_USER, ESCAPED_USER):
                row = UserScramCredentialUpsertion(user, info, SCRAM_PASSWORD.encode())
                admin.alter_user_scram_credentials([row])[user].result(30)
        yield cluster


def token_of(listener: str) -> str:
    """A token that the listener accepts."""
    now_s = int(time.time())
    if listener == SIGNED:
        return signed(EC, "ES256", claims(sub=TOKEN_USER, iat=now_s, exp=now_s + 600))
    return bearer_token(1000 * now_s)


def authority(cluster: MixedCluster) -> Path:
    return cluster.directory / "stores" / "ca.pem"


def log_lines(cluster: MixedCluster, event: str) -> list[str]:
    text = (cluster.home("broker-1") / "log").read_text()
    return [line for line in text.splitlines() if event in line]


# -- confluent-kafka


def librdkafka(cluster: MixedCluster, listener: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.addresses(listener),
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(authority(cluster)),
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER" and listener == SIGNED:
        settings["oauth_cb"] = lambda _: (token_of(listener), time.time() + 600)
    elif mechanism == "OAUTHBEARER":
        settings["enable.sasl.oauthbearer.unsecure.jwt"] = True
        settings["sasl.oauthbearer.config"] = f"principal={TOKEN_USER}"
    else:
        settings["sasl.username"], settings["sasl.password"] = credentials(mechanism)
    return settings


@pytest.mark.mission("SEC-106")
@pytest.mark.mission("SEC-112")
@pytest.mark.mission("SEC-119")
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in(cluster: MixedCluster, listener: str, mechanism: str) -> None:
    settings = librdkafka(cluster, listener, mechanism)
    if settings.get("sasl.username") == SCRAM_USER:
        settings["sasl.username"] = ESCAPED_USER
    value = f"confluent {listener} {mechanism}".encode()
    producer = Producer(settings)
    failures: list[object] = []
    producer.produce(TOPIC, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None]
    consumer = Consumer({**settings, "group.id": value.decode(), "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: set[bytes] = set()
    while value not in found:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.add(message.value() or b"")
    consumer.close()


@pytest.mark.mission("SEC-107")
@pytest.mark.mission("SEC-113")
@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
def test_confluent_kafka_reports_a_wrong_password(cluster: MixedCluster, mechanism: str) -> None:
    errors: list[KafkaError] = []
    settings = librdkafka(cluster, "SASL_PLAINTEXT", mechanism)
    settings |= {"sasl.password": "not-it", "error_cb": errors.append}
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)

    def is_refused() -> bool:
        admin.poll(0.1)
        return KafkaError._AUTHENTICATION in {error.code() for error in errors}

    until(is_refused, "the client knows that it is refused")
    assert any("Authentication failed" in error.str() for error in errors)
    lines = log_lines(cluster, "authentication_failed")
    assert any(mechanism in line for line in lines)
    assert not any("not-it" in line for line in lines)


# -- kafka-python


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, listener: str) -> None:
        self._listener = listener

    async def token(self) -> str:
        return token_of(self._listener)


class BlockingTokenProvider(PythonTokenProvider):  # type: ignore[misc]
    def __init__(self, listener: str) -> None:
        super().__init__()
        self._listener = listener

    def token(self) -> str:
        return token_of(self._listener)


def kafka_python(cluster: MixedCluster, listener: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.addresses(listener),
        "security_protocol": listener,
        "sasl_mechanism": mechanism,
        "ssl_cafile": str(authority(cluster)),
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = BlockingTokenProvider(listener)
    else:
        user, password = credentials(mechanism)
        settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return settings


@pytest.mark.mission("SEC-106")
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(cluster: MixedCluster, listener: str, mechanism: str) -> None:
    settings = kafka_python(cluster, listener, mechanism)
    producer = KafkaProducer(**settings)
    offset = producer.send(TOPIC, b"kafka-python").get(30).offset
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, **settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    assert offset in (message.offset for message in consumer)
    consumer.close()


@pytest.mark.mission("SEC-107")
def test_kafka_python_does_not_get_in_with_a_wrong_password(cluster: MixedCluster) -> None:
    settings = kafka_python(cluster, "SASL_PLAINTEXT", "PLAIN")
    settings |= {"sasl_plain_password": "not-it", "bootstrap_timeout_ms": 1000}
    with pytest.raises(PythonKafkaError):
        KafkaProducer(**settings)


# -- aiokafka


def aiokafka(cluster: MixedCluster, listener: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.addresses(listener),
        "security_protocol": listener,
        "sasl_mechanism": mechanism,
        "ssl_context": ssl.create_default_context(cafile=str(authority(cluster))),
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = TokenProvider(listener)
    else:
        user, password = credentials(mechanism)
        settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return settings


@pytest.mark.mission("SEC-106")
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in(cluster: MixedCluster, listener: str, mechanism: str) -> None:
    settings = aiokafka(cluster, listener, mechanism)
    async with asyncio.timeout(60):
        async with AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait(TOPIC, b"aiokafka")
        async with AIOKafkaConsumer(TOPIC, **settings, auto_offset_reset="earliest") as consumer:
            while (await consumer.getone()).offset != sent.offset:
                pass


@pytest.mark.mission("SEC-107")
@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
async def test_aiokafka_reports_a_wrong_password(cluster: MixedCluster, mechanism: str) -> None:
    settings = aiokafka(cluster, "SASL_PLAINTEXT", mechanism) | {"sasl_plain_password": "not-it"}
    producer = AIOKafkaProducer(**settings)
    with pytest.raises(AioKafkaError):
        await producer.start()
    await producer.stop()


# -- kafkajs


@pytest.mark.mission("SEC-106", "SEC-107")
def test_kafkajs_logs_in_and_reports_a_wrong_password(
    cluster: MixedCluster, node_modules: Path
) -> None:
    def login(mechanism: str) -> dict[str, str]:
        user, password = credentials(mechanism)
        return {"mechanism": mechanism.lower(), "username": user, "password": password}

    options = {
        "bootstrap": cluster.addresses("SASL_SSL"),
        "ca": str(authority(cluster)),
        "topic": TOPIC,
        "logins": [login(mechanism) for mechanism in WITH_PASSWORDS],
    }
    done = subprocess.run(
        ["node", str(KAFKAJS_LOGIN), json.dumps(options)],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"done": 3, "refused": "KafkaJSSASLAuthenticationError"}


# -- large batches


BATCH_BYTES = 10_000_000
READERS = 4


def resident_bytes(cluster: MixedCluster) -> int:
    pid = (cluster.home("broker-1") / "pid").read_text().strip()
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def slow_readers(cluster: MixedCluster, listener: str) -> tuple[list[bytes], int]:
    """Return what readers get that pipeline three fetches of a large batch and read them after a
    second, and by how much the broker's memory has grown meanwhile."""
    user, password = credentials("PLAIN")
    options = client_options(
        {
            "kafka.security.protocol": listener,
            "kafka.ssl.truststore.location": str(authority(cluster)),
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": user,
            "kafka.sasl.password": password,
        }
    )
    host, _, port = cluster.address(1, listener).rpartition(":")
    readers = [BlockingConnection(host, int(port), options) for _ in range(READERS)]
    for reader in readers:
        reader.open()
    before = resident_bytes(cluster)
    limits = FetchLimits(100, 1, 2**31 - 1, 2**31 - 1, 0)
    place = TopicPartition("large", 0)
    for reader in readers:
        for _ in range(3):
            reader.send(fetch_request(limits, [(place, FetchPosition(-1, 0))]), FETCH_VERSION)
    time.sleep(1)
    grown = resident_bytes(cluster) - before
    found = []
    for reader in readers:
        for _ in range(3):
            ((_, row),) = fetched_partitions(reader.receive())
            found.append(bytes(row.records or b""))
        reader.close()
    return found, grown


@pytest.mark.mission("SEC-128")
def test_large_batches_reach_slow_readers_over_tls_one_at_a_time(
    cluster: MixedCluster,
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"max.message.bytes": str(2 * BATCH_BYTES)}
    admin.create_topics([NewTopic("large", 1, 1, config=config)])["large"].result(30)
    settings = librdkafka(cluster, "SASL_SSL", "PLAIN")
    producer = Producer({**settings, "message.max.bytes": 2 * BATCH_BYTES})
    failures: list[object] = []
    value = random.Random(1).randbytes(BATCH_BYTES)
    producer.produce("large", value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]
    plain, _ = slow_readers(cluster, "SASL_PLAINTEXT")
    secured, growth = slow_readers(cluster, "SASL_SSL")
    assert value in plain[0]
    assert plain == secured == [plain[0]] * 3 * READERS
    # One of the three responses of each reader, encrypted, and what is not sent of it copied.
    assert growth < 3 * READERS * BATCH_BYTES


# -- sessions


SOCKET_METRICS = "kafka.server:type=socket-server-metrics"


def counts(cluster: MixedCluster) -> dict[str, int]:
    """What the listener whose sessions end has counted, by Kafka's names."""
    address = str(cluster.properties(1)["debug.listener"]).lower()
    with urllib.request.urlopen(f"{address}/metrics.json?prefix={SOCKET_METRICS}") as response:
        metrics = json.load(response)["metrics"]
    return {
        name.rpartition(":")[2]: count
        for name, count in metrics.items()
        if name.startswith(f"{SOCKET_METRICS},listener={SESSIONS[0]},networkProcessor=0:")
    }


@pytest.mark.mission("SEC-115")
def test_confluent_kafka_and_kafka_python_go_on_after_the_end_of_a_session(
    cluster: MixedCluster,
) -> None:
    """A client that is late, as on a busy machine, loses its connection and makes another one."""
    before = counts(cluster)
    producer = Producer(librdkafka(cluster, *SESSIONS))
    blocking = KafkaProducer(**kafka_python(cluster, *SESSIONS))
    failures: list[object] = []

    def since(name: str) -> int:
        return counts(cluster)[name] - before[name]

    def go_on() -> bool:
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(60) == 0
        blocking.send(TOPIC, b"y").get(60)
        return since("successful-reauthentication-total") >= 4

    until(go_on, "both have logged in again", 120)
    blocking.close()
    assert set(failures) == {None}
    assert since("expired-connections-killed-count") < since("successful-reauthentication-total")


@pytest.mark.mission("SEC-116")
async def test_aiokafka_connects_again_after_the_end_of_a_session(cluster: MixedCluster) -> None:
    before = await asyncio.to_thread(counts, cluster)
    async with AIOKafkaProducer(**aiokafka(cluster, *SESSIONS)) as producer:
        for _ in range(2):
            await producer.send_and_wait(TOPIC, b"z")
            await asyncio.sleep(2.5)
        await producer.send_and_wait(TOPIC, b"z")
    after = await asyncio.to_thread(counts, cluster)
    ended = "expired-connections-killed-count"
    assert after[ended] > before[ended]
