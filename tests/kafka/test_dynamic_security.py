"""Stores that change at run time: refused as by Kafka, and each kind reads what the other wrote."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from minikafka.client import Admin, ClientConfig
from minikafka.core.client.admin.configs import CLUSTER_DEFAULT, ConfigAlteration
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.errors import KafkaError
from minikafka.world.real.world import real_world
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.security.certificates import Authority, Identity

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

SSL = "listener.name.ssl.ssl"
AUTHORITY = Authority("both")


def alter(cluster: MixedCluster, name: str, changes: dict[str, str]) -> int:
    """Alter the configuration of broker 1, or of all brokers (``CLUSTER_DEFAULT``). Return the
    error code."""

    async def play() -> int:
        config = ClientConfig(bootstrap_servers=cluster.address(1), request_timeout_ms=20_000)
        async with Admin(real_world(), config) as admin:
            try:
                await admin.incremental_alter_configs(
                    ResourceType.BROKER,
                    name,
                    [ConfigAlteration(key, text) for key, text in changes.items()],
                )
            except KafkaError as error:
                return int(error.code)
        return 0

    return asyncio.run(asyncio.wait_for(play(), 60))


def shown(cluster: MixedCluster) -> bytes:
    """The certificate that broker 1 shows to a new connection."""
    host, port = cluster.address(1, "SSL").split(":")
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))


def change_store(cluster: MixedCluster, home: Path, password: str) -> Identity:
    """Give broker 1 another key store at run time, and wait until it is in use."""
    made = AUTHORITY.issue("broker", ("127.0.0.1",))
    path = home / f"{password}.p12"
    path.write_bytes(made.pkcs12(password))
    changes = {
        f"{SSL}.keystore.location": str(path),
        f"{SSL}.keystore.type": "PKCS12",
        f"{SSL}.keystore.password": password,
        f"{SSL}.key.password": password,
    }
    assert alter(cluster, "1", changes) == 0
    until(lambda: shown(cluster) == made.der, "the new certificate is shown", 20)
    return made


@pytest.mark.mission("SEC-105")
@pytest.mark.mission("SEC-125")
@pytest.mark.mission("SEC-181")
def test_either_kind_reads_the_passwords_of_the_other(mixed: Mixed, tmp_path: Path) -> None:
    first = AUTHORITY.issue("broker", ("127.0.0.1",))
    stranger = AUTHORITY.issue("another", ("127.0.0.1",))
    for name, identity in (("first", first), ("stranger", stranger)):
        (tmp_path / f"{name}.pem").write_bytes(identity.key_pem() + identity.chain_pem)
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tmp_path / "first.pem",
        "password.encoder.secret": "encoder-secret",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
    }
    refused: list[tuple[str, dict[str, str]]] = [
        ("1", {"ssl.keystore.password": "bare"}),
        (CLUSTER_DEFAULT, {f"{SSL}.keystore.password": "of all"}),
        (CLUSTER_DEFAULT, {"listener.name.ssl.ssl.client.auth": "required"}),
        (CLUSTER_DEFAULT, {"listeners": "PLAINTEXT://:1"}),
        ("1", {f"{SSL}.keystore.location": "/no/such/file"}),
        ("1", {f"{SSL}.keystore.location": str(tmp_path / "stranger.pem")}),
        ("1", {"listener.name.ssl.max.connections": "0"}),
        ("1", {"listeners": "SSL://127.0.0.1:1"}),
        ("1", {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT"}),
    ]
    with mixed(NEWEST, properties=properties, more_listeners=("SSL",)) as cluster:
        assert shown(cluster) == first.der
        of_kafka = [alter(cluster, *each) for each in refused]
        of_kafka_store = change_store(cluster, tmp_path, "by-kafka")
        cluster.become(1, OURS)
        cluster.until_ready()
        assert shown(cluster) == of_kafka_store.der
        before = cluster.znode("/config/brokers/1")
        assert [alter(cluster, *each) for each in refused] == of_kafka
        assert set(of_kafka) == {42}
        assert cluster.znode("/config/brokers/1") == before
        ours = change_store(cluster, tmp_path, "by-us")
        assert "by-us" not in str(
            cluster.znode("/config/brokers/1")["config"][f"{SSL}.key.password"]
        )
        cluster.become(1, NEWEST)
        cluster.until_ready()
        assert shown(cluster) == ours.der
