"""`up --secure`: its client configurations as they are, what is refused, files, a second start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from minikafka import aio
from minikafka.kernel.config import parse_properties
from minikafka.testing.processes import ClusterProcesses
from scripts.lib.apache_kafka import NEWEST, NoApacheKafka, java_command
from tests.support.clients.confluent import value_of
from tests.support.cluster.real_cluster import run_verb

pytestmark = [pytest.mark.compat, pytest.mark.xdist_group("secured")]

OTHERS = 0o077
BLOCK_LINES = 4  # what `up` prints after the line that says that it is ready
CLIENT_DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "client.md"
OF_ADMIN = "not-of-app"
API_VERSIONS = 18
TLS_ALERT = b"\x15"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Two brokers, which replicate over a login."""
    with ClusterProcesses(tmp_path_factory.mktemp("secured"), 2, secure=True) as running:
        yield running


@pytest.fixture
def topic(cluster: ClusterProcesses) -> str:
    """A topic that ``app`` has created with our verb and its own configuration."""
    name = f"app-{uuid.uuid4().hex[:8]}"
    words = ("--topic", name, "--replication-factor", "2", "--config", "min.insync.replicas=2")
    done = verb(cluster, "topics", "create", *words)
    assert done.returncode == 0, done.stderr
    return name


def verb(cluster: ClusterProcesses, *words: str, user: str = "app") -> Any:
    settings = cluster.client_folder(user) / "client.properties"
    where = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(settings))
    return run_verb(*words, *where)


@pytest.mark.mission("SEC-191")
async def test_each_client_works_with_its_file(cluster: ClusterProcesses, topic: str) -> None:
    def settings(client: str) -> dict[str, Any]:
        return cluster.client_settings(client=client)

    failures: list[object] = []
    librdkafka = parse_properties((cluster.client_folder() / "librdkafka.properties").read_text())
    for number, config in enumerate((settings("confluent_kafka"), librdkafka)):
        producer = Producer({**config, "acks": "all"})
        producer.produce(
            topic, b"confluent %d" % number, on_delivery=lambda e, _: failures.append(e)
        )
        assert producer.flush(30) == 0
    assert failures == [None, None]
    with KafkaProducer(**settings("kafka_python")) as blocking:
        blocking.send(topic, b"kafka-python").get(30)
    async with AIOKafkaProducer(**settings("aiokafka")) as other:
        await other.send_and_wait(topic, b"aiokafka")
    async with aio.Producer(**settings("minikafka_aio")) as ours:
        await ours.send_and_wait(topic, b"minikafka")
    consumer = Consumer(
        {**settings("confluent_kafka"), "group.id": "app-g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = [value_of(message) for message in consumer.consume(5, 30)]
    consumer.close()
    expected = [b"confluent 0", b"confluent 1", b"kafka-python", b"aiokafka", b"minikafka"]
    assert sorted(found) == sorted(expected)


@pytest.mark.mission("SEC-191")
@pytest.mark.kafka
def test_kafkas_tools_work_with_the_file_of_java_clients(
    cluster: ClusterProcesses, topic: str
) -> None:
    try:
        command = java_command(
            NEWEST,
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", cluster.bootstrap, "--describe", "--entity-type", "topics"),
            *("--entity-name", topic),
            *("--command-config", str(cluster.client_folder() / "client.properties")),
        )
    except NoApacheKafka as why:
        pytest.skip(str(why))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"Dynamic configs for topic {topic} are:" in done.stdout


async def test_the_example_of_the_docs(cluster: ClusterProcesses) -> None:
    blocks = re.findall(r"```python\n(.*?)```", CLIENT_DOCS.read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "minikafka_secure_cluster" in block)
    names: dict[str, Any] = {}
    exec(example, names)
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    await test(cluster)


@pytest.mark.mission("SEC-191")
def test_verify_writes_and_reads_as_the_user(cluster: ClusterProcesses) -> None:
    words = ("--topic", f"app-{uuid.uuid4().hex[:8]}", "--duration-s", "0.5", "--json")
    done = verb(cluster, "verify", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"]
    assert found["workloads"]["append"]["counts"]["records_acknowledged"] > 0


@pytest.mark.mission("SEC-192")
async def test_others_are_refused(cluster: ClusterProcesses, topic: str) -> None:
    done = verb(cluster, "topics", "create", "--topic", OF_ADMIN)
    assert (done.returncode, "TOPIC_AUTHORIZATION_FAILED" in done.stderr) == (1, True)
    cluster.create_topic(OF_ADMIN)  # as the user admin
    settings = cluster.client_settings()
    async with aio.Admin(**settings) as admin:
        names = {found.name for found in await admin.list_topics()}
    assert topic in names
    assert OF_ADMIN not in names
    with pytest.raises(aio.KafkaError) as caught:
        async with aio.Admin(**settings | {"sasl_password": "not-it"}) as admin:
            await admin.list_topics()
    assert caught.value.code is aio.ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.mission("SEC-192")
def test_plain_connections_and_other_authorities_are_refused(cluster: ClusterProcesses) -> None:
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        plain.sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, 1, -1))
        assert plain.recv(1000)[:1] in (b"", TLS_ALERT)
    with (
        socket.create_connection((host, int(port)), timeout=10) as stranger,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(stranger, server_hostname=host)


@pytest.mark.mission("SEC-193")
@pytest.mark.mission("SEC-194")
def test_files_are_private_and_a_second_start_uses_them(
    cluster: ClusterProcesses, topic: str
) -> None:
    """The last test, since it restarts the cluster on other ports."""
    process = cluster._up
    assert process is not None
    assert process.stdout is not None
    printed = "".join(process.stdout.readline() for _ in range(BLOCK_LINES))
    assert str(cluster.home / "security" / "clients") in printed
    process.send_signal(signal.SIGTERM)
    printed += process.stdout.read()
    cluster.stop()

    files = [Path(base) / name for base, _, names in os.walk(cluster.home) for name in names]
    folders = [Path(base) for base, _, _ in os.walk(cluster.home)]
    assert [path for path in (*files, *folders) if path.stat().st_mode & OTHERS] == []
    before = {path: path.read_bytes() for path in files}
    words = parse_properties((cluster.home / "security" / "users.properties").read_text())
    assert sorted(words) == ["admin", "app", "broker"]
    configurations = {path for path in files if cluster.client_folder().parent in path.parents}
    properties = {cluster.home / f"broker-{number}" / "server.properties" for number in (1, 2)}
    allowed = {cluster.home / "security" / "users.properties", *properties, *configurations}
    for word in words.values():
        assert len(word) >= 32
        assert word not in printed
        assert {path for path, text in before.items() if word.encode() in text} <= allowed

    refused = run_verb("up", "--data-dir", str(cluster.home))
    assert (refused.returncode, "add --secure" in refused.stderr) == (1, True)

    cluster.start()
    security = cluster.home / "security"
    for name in ("ca.pem", "ca-key.pem", "users.properties", "broker-1.pem", "broker-2.pem"):
        assert (security / name).read_bytes() == before[security / name]
    assert topic in verb(cluster, "topics", "list").stdout.split()
