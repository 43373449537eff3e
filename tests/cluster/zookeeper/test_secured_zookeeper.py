"""A broker on a real ZooKeeper with a SASL user and ACLs, and one with a client certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from minikafka.cli.processes.zookeeper_security import (
    login_file_text,
    server_security,
    write_users,
)
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import connected
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.real_cluster import run_verb
from tests.support.security.certificates import Authority
from tests.support.zookeeper.process import running_zookeeper

pytestmark = pytest.mark.cluster

CREATOR, READER, OPEN = (31, "sasl", "kafka"), (1, "world", "anyone"), (31, "world", "anyone")
OF_CERTIFICATE = (31, "x509", "CN=broker")


@dataclass(frozen=True)
class SecuredZookeeper:
    """``plain`` and ``tls`` are addresses; ``home`` has the files of the clients."""

    plain: str
    tls: str
    home: Path

    def login(self, password: str = "of-kafka") -> dict[str, object]:
        path = self.home / f"{password}.jaas"
        path.write_text(login_file_text("kafka", password))
        return {"java.security.auth.login.config": path}

    def certificate(self) -> dict[str, object]:
        return {
            "zookeeper.connect": self.tls,
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": self.home / "broker.p12",
            "zookeeper.ssl.keystore.password": "secret",
            "zookeeper.ssl.truststore.location": self.home / "truststore.pem",
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZookeeper]:
    home = tmp_path_factory.mktemp("credentials")
    authority = Authority()
    server = authority.issue("zookeeper", ("127.0.0.1",))
    write_users(home, {"kafka": "of-kafka"})
    (home / "keystore.pem").write_bytes(server.key_pem() + server.chain_pem)
    (home / "truststore.pem").write_bytes(authority.pem)
    (home / "broker.p12").write_bytes(authority.issue("broker").pkcs12("secret"))
    (port,) = free_ports(1)
    with running_zookeeper(security=server_security(home, port)) as process:
        yield SecuredZookeeper(process.connect, f"127.0.0.1:{port}", home)


def acls(client: KazooClient, path: str = "/") -> dict[str, list[tuple[int, str, str]]]:
    """Return the ACLs of a znode and of those below it, as far as they can be read."""
    try:
        entries, _ = client.get_acls(path)
        children = client.get_children(path)
    except NoAuthError:
        return {path: []}
    found = {path: [(entry.perms, entry.id.scheme, entry.id.id) for entry in entries]}
    for name in children:
        found |= acls(client, f"{path.rstrip('/')}/{name}")
    return found


SENSITIVE = ("/config/users", "/config/brokers")


@pytest.mark.mission("SEC-153")
def test_a_broker_with_a_login_and_acls(secured: SecuredZookeeper, tmp_path: Path) -> None:
    settings = {**secured.login(), "zookeeper.set.acl": "true"}
    connect = f"{secured.plain}/sasl"
    user = ["--alter", "--entity-type", "users", "--entity-name", "alice"]
    with MixedCluster(tmp_path, connect, [OURS], settings) as cluster, connected(connect) as zk:
        cluster.create_topic("t")
        server = ["--bootstrap-server", cluster.bootstrap]
        made = run_verb("configs", *server, *user, "--add-config", "producer_byte_rate=9")
        assert made.returncode == 0, made.stderr
        found = acls(zk)
        assert found.pop("/") == [OPEN]  # the test has made the chroot
        assert found.pop("/consumers") == [OPEN]
        for path in SENSITIVE:
            assert found.pop(path) == [], path
        assert {"/config/topics/t", "/brokers/topics/t/partitions/0/state"} <= found.keys()
        assert {tuple(acl) for acl in found.values()} == {(CREATOR, READER)}
        with pytest.raises(NoAuthError):
            zk.get_children("/config/users")
        with pytest.raises(NoAuthError):
            zk.set("/brokers/ids/1", b"{}")
        tool = tmp_path / "tool"
        tool.write_text("".join(f"{key}={value}\n" for key, value in secured.login().items()))
        words = ["--zookeeper.acl", "unsecure", "--zookeeper.connect", connect]
        opened = run_verb("zookeeper-security", *words, "--zk-tls-config-file", str(tool))
        assert opened.returncode == 0, opened.stderr
        assert {tuple(acl) for acl in acls(zk).values()} == {(OPEN,)}
        assert zk.get_children("/config/users") == ["alice"]
        assert "of-kafka" not in cluster.log(1)


@pytest.mark.mission("SEC-153")
def test_a_broker_with_a_client_certificate(secured: SecuredZookeeper, tmp_path: Path) -> None:
    settings = {**secured.certificate(), "zookeeper.set.acl": "true"}
    settings["zookeeper.connect"] = f"{secured.tls}/tls"
    connect = f"{secured.plain}/tls"
    with MixedCluster(tmp_path, connect, [OURS], settings) as cluster, connected(connect) as zk:
        cluster.create_topic("t")
        found = acls(zk)
        assert found["/brokers/topics/t/partitions/0/state"] == [OF_CERTIFICATE, READER]
        assert found["/config/users"] == []


@pytest.mark.mission("SEC-153")
def test_credentials_that_are_wrong_end_the_start(
    secured: SecuredZookeeper, tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"

    def start(settings: dict[str, object]) -> str:
        base = {"zookeeper.connect": secured.plain, "log.dirs": tmp_path / "data"}
        more = {"listeners": "PLAINTEXT://127.0.0.1:0", "zookeeper.connection.timeout.ms": 1500}
        lines = [f"{key}={value}\n" for key, value in (base | more | settings).items()]
        properties.write_text("".join(lines))
        done = run_verb("broker", "--config", str(properties), "--log-level", "ERROR")
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1, done.stderr
        return str(done.stderr)

    refused = start(secured.login("wrong"))
    assert refused.startswith("minikafka: the SASL login of kafka at ZooKeeper has failed")
    untrusted = secured.home / "untrusted.pem"
    untrusted.write_bytes(Authority("other").pem)
    other = {"zookeeper.ssl.truststore.location": untrusted}
    assert "CERTIFICATE_VERIFY_FAILED" in start(secured.certificate() | other)
