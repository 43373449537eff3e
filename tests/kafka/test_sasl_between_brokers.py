"""Brokers of both kinds log in at each other: SASL over TLS, with sessions of some seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.kafka.test_tls import Files, write
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.security.certificates import Authority

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

SESSION_MS = 4_000
ROUNDS = 12
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="of-brokers" user_broker="of-brokers" user_alice="of-alice";'
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    home = tmp_path_factory.mktemp("stores")
    return write(home / "broker", Authority("both").issue("broker", ("127.0.0.1",)))


@pytest.fixture(scope="module")
def cluster(mixed: Mixed, files: Files) -> Iterator[MixedCluster]:
    """Brokers 1 and 3 are ours, broker 2 is official."""
    properties = {
        **files.properties(),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "connections.max.reauth.ms": SESSION_MS,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN,
        "replica.lag.time.max.ms": 6_000,
    }
    listeners = ("SASL_SSL",)
    with mixed(OURS, NEWEST, OURS, properties=properties, more_listeners=listeners) as cluster:
        cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        yield cluster


@pytest.mark.mission("SEC-157")
def test_both_kinds_replicate_over_logins_that_they_repeat(
    cluster: MixedCluster, files: Files
) -> None:
    client = {
        "bootstrap.servers": cluster.addresses("SASL_SSL"),
        "ssl.ca.location": str(files.authority),
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "of-alice",
    }
    producer = Producer({**client, "acks": "all"})
    failures: list[object] = []
    for number in range(ROUNDS):
        for partition in range(3):
            producer.produce(
                "t",
                b"%d" % number,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error),
            )
        assert producer.flush(60) == 0
        time.sleep(1)
    assert failures == [None] * 3 * ROUNDS
    for partition in range(3):
        assert sorted(cluster.state("t", partition)["isr"]) == [1, 2, 3]
        assert cluster.state("t", partition)["leader_epoch"] == 0
    consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = 0
    while found < 3 * ROUNDS:
        message = consumer.poll(30)
        assert message is not None, f"{found} records came"
        assert message.error() is None
        found += 1
    consumer.close()


@pytest.mark.mission("SEC-158")
def test_our_verbs_log_in_over_tls(cluster: MixedCluster, files: Files, tmp_path: Path) -> None:
    """At brokers of both kinds, as the metadata of the listener names them."""
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="of-alice";\nssl.truststore.location={files.authority}\n'
    )

    def verb(name: str, *words: str, text: str | None = None) -> str:
        command = [sys.executable, "-m", "minikafka.cli.main", name, *words]
        command += ["--bootstrap-server", cluster.addresses("SASL_SSL")]
        command += ["--command-config", str(settings)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    verb("topics", "--create", "--topic", "verbs", "--partitions", "3", "--replication-factor", "3")
    verb("produce", "--topic", "verbs", text="".join(f"line {n}\n" for n in range(30)))
    words = ("--topic", "verbs", "--from-beginning", "--max-messages", "30")
    lines = verb("consume", *words).splitlines()
    assert sorted(lines) == sorted(f"line {n}" for n in range(30))
