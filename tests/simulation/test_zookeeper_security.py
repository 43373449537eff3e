"""Simulated brokers with a login at ZooKeeper and ``zookeeper.set.acl``."""

from __future__ import annotations

import pytest

from minikafka.cli.processes.zookeeper_security import login_file_text
from minikafka.client.admin.admin import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import CreateOp, NoAuth, ZookeeperLoginFailed
from minikafka.kernel.zookeeper_security import (
    ANYONE_ALL,
    ANYONE_READ,
    Permission,
    ZnodeAcl,
    ZnodeAclEntry,
)
from minikafka.simulator.cluster import SimCluster, host_name
from minikafka.world.sim.znode_tree import Author

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
