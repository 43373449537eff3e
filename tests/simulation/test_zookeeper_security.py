"""Simulated brokers with a login at ZooKeeper and ``zookeeper.set.acl``."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest

from minikafka.cli.cluster.migrate import move_controller
from minikafka.cli.cluster.zookeeper_security import add_arguments, convert
from minikafka.cli.processes.zookeeper_security import login_file_text
from minikafka.cli.zookeeper_connect import zookeeper_security
from minikafka.client.admin.admin import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import CreateOp, NoAuth, ZookeeperLoginFailed
from minikafka.kernel.zookeeper_security import (
    ANYONE_ALL,
    ANYONE_READ,
    Permission,
    ZnodeAcl,
    ZnodeAclEntry,
)
from minikafka.testing.simulator.cluster import SimCluster, host_name
from minikafka.world.memory.znode_tree import Author

LOGIN_FILE = "/login.jaas"
SECURE = {"java.security.auth.login.config": LOGIN_FILE, "zookeeper.set.acl": "true"}
OURS = ZnodeAclEntry(Permission.ALL, "sasl", "kafka")
THEIRS = (ZnodeAclEntry(Permission.ALL, "sasl", "other"),)


async def secured(cluster: SimCluster, password: str = "secret") -> None:
    cluster.simulation.zookeeper.users["kafka"] = "secret"
    for broker_id in cluster.broker_ids:
        files = cluster.simulation.host(host_name(broker_id)).world.files
        await files.replace(LOGIN_FILE, login_file_text("kafka", password).encode())


def acls(cluster: SimCluster) -> dict[str, ZnodeAcl]:
    return {path: node.acl for path, node in cluster.simulation.zookeeper.tree.nodes.items()}


@pytest.mark.mission("SEC-153")
def test_every_znode_of_a_broker_has_its_acl() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await secured(cluster)
        cluster.start()
        await cluster.until_whole()
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("t", 2, 2)
        for session_id in list(cluster.simulation.zookeeper.sessions):
            cluster.simulation.zookeeper.expire(session_id)
        await cluster.until("a controller", lambda: cluster.controller_id() is not None)
        await cluster.until_whole(TopicPartition("t", 0), TopicPartition("t", 1))
        found = acls(cluster)
        assert "/brokers/topics/t/partitions/1/state" in found
        assert "/config/topics/t" in found
        for path, acl in found.items():
            if path in ("/", "/consumers"):
                assert acl == ANYONE_ALL, path
            elif path.startswith(("/config/users", "/config/brokers")):
                assert acl == (OURS,), path
            else:
                assert acl == (OURS, *ANYONE_READ), path

    SimCluster(1, (1, 2), SECURE).run(scenario)


@pytest.mark.mission("SEC-153")
def test_a_wrong_password_ends_the_start() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await secured(cluster, "wrong")
        cluster.start()
        end = await cluster.end_of(1)
        assert isinstance(end, ZookeeperLoginFailed)
        assert str(end).startswith("the SASL login of kafka at ZooKeeper has failed")

    SimCluster(1, (1,), SECURE).run(scenario)


@pytest.mark.mission("SEC-153")
def test_a_running_broker_tries_again_when_its_login_is_refused() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await secured(cluster)
        cluster.start()
        await cluster.until_whole()
        zookeeper = cluster.simulation.zookeeper
        zookeeper.users["kafka"] = "changed"
        (session_id,) = zookeeper.sessions
        zookeeper.expire(session_id)
        await asyncio.sleep(30)
        assert not zookeeper.sessions
        zookeeper.users["kafka"] = "secret"
        await cluster.until(
            "registered", lambda: zookeeper.tree.exists("/brokers/ids/1") is not None
        )

    SimCluster(1, (1,), SECURE).run(scenario)


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize("path", ["/brokers", "/controller_epoch", "/isr_change_notification"])
def test_znodes_of_another_identity_end_a_broker(path: str) -> None:
    """It would otherwise be elected and resign again and again."""

    async def scenario(cluster: SimCluster) -> None:
        await secured(cluster)
        tree = cluster.simulation.zookeeper.tree
        other = Author(0, (("world", "anyone"), ("sasl", "other")), {0: THEIRS})
        assert tree.apply([CreateOp(path, b"1")], other, 0).error is None
        cluster.start()
        end = await cluster.end_of(1)
        assert isinstance(end, NoAuth)
        assert str(end).startswith(f"ZooKeeper denies access to {path}")

    SimCluster(1, (1,), SECURE).run(scenario)


@pytest.mark.mission("SEC-153")
def test_existing_znodes_are_secured_and_opened_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Brokers run meanwhile, with the login but without zookeeper.set.acl."""
    settings = {"java.security.auth.login.config": LOGIN_FILE}
    (tmp_path / "tool").write_text(f"java.security.auth.login.config={LOGIN_FILE}\nport=1\n")

    async def scenario(cluster: SimCluster) -> None:
        await secured(cluster)
        client = cluster.client_host.world
        await client.files.replace(LOGIN_FILE, login_file_text("kafka", "secret").encode())
        cluster.start()
        await cluster.until_whole()
        async with Admin(client, cluster.client_config) as admin:
            await admin.create_topic("t", 2, 1)
        assert set(acls(cluster).values()) == {ANYONE_ALL}
        assert await convert(client, arguments("secure", "--enable.path.check")) == 1
        assert set(acls(cluster).values()) == {ANYONE_ALL}
        assert await convert(client, arguments("secure")) == 0
        found = acls(cluster)
        assert found.pop("/consumers") == ANYONE_ALL
        assert {path for path, acl in found.items() if acl == (OURS,)} == {
            "/config/users",
            "/config/brokers",
        }
        assert set(found.values()) == {(OURS,), (OURS, *ANYONE_READ)}
        assert f"{len(found)} znodes are secure" in capsys.readouterr().out
        other = 3 - (cluster.controller_id() or 0)
        with pytest.raises(NoAuth):
            await move_controller(client, "zookeeper:2181", other)
        await move_controller(
            client, "zookeeper:2181", other, zookeeper_security(arguments("secure"), client)
        )
        assert await convert(client, arguments("unsecure")) == 0
        assert set(acls(cluster).values()) == {ANYONE_ALL}

    def arguments(*words: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        more = ["--zookeeper.connect", "zookeeper:2181", "--zookeeper.acl", *words]
        return parser.parse_args([*more, "--zk-tls-config-file", str(tmp_path / "tool")])

    SimCluster(1, (1, 2), settings).run(scenario)


def test_a_conversion_needs_an_identity() -> None:
    async def scenario(cluster: SimCluster) -> None:
        args = argparse.Namespace(acl="secure", zk_tls_config_file=None)
        with pytest.raises(ConfigError, match="an identity at ZooKeeper is needed"):
            await convert(cluster.client_host.world, args)

    SimCluster(1, (1,)).run(scenario)
