"""Brokers of both kinds with one identity at ZooKeeper share znodes with ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from minikafka.cli.processes.zookeeper_security import (
    login_file_text,
    server_security,
    write_users,
)
from scripts.lib.apache_kafka import NEWEST
from tests.support.cluster.cluster_state import connected
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.zookeeper.process import running_zookeeper

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Broker 1 is ours, broker 2 is official."""
    home = tmp_path_factory.mktemp("secured")
    write_users(home, {"kafka": "of-kafka"})
    login = home / "client.jaas"
    login.write_text(login_file_text("kafka", "of-kafka"))
    properties = {"zookeeper.set.acl": "true", "java.security.auth.login.config": login}
    options = [f"-Djava.security.auth.login.config={login}"]
    with running_zookeeper(security=server_security(home)) as zookeeper:
        connect = f"{zookeeper.connect}/mixed"
        kinds = [OURS, NEWEST]
        with MixedCluster(home, connect, kinds, properties, jvm_options=options) as cluster:
            yield cluster


def acls(client: KazooClient, path: str) -> dict[str, object]:
    """Return the ACLs of a znode and of those below it; None for those that cannot be read."""
    try:
        entries, _ = client.get_acls(path)
        children = client.get_children(path)
    except NoAuthError:
        return {path: None}
    found: dict[str, object] = {
        path: [(entry.perms, entry.id.scheme, entry.id.id) for entry in entries]
    }
    for name in children:
        found |= acls(client, f"{path.rstrip('/')}/{name}")
    return found


@pytest.mark.mission("SEC-153")
def test_controllers_of_both_kinds_write_the_znodes_of_each_other(
    cluster: MixedCluster, tmp_path: Path
) -> None:
    for controller, topic in ((1, "of-ours"), (2, "of-kafka"), (1, "later")):
        cluster.make_controller(controller)
        cluster.create_topic(topic, [2, 1], [1, 2])
    cluster.elect_preferred_leaders()
    cluster.end_broker(2)
    for topic in ("of-ours", "of-kafka", "later"):
        cluster.until_isr(topic, 0, [1])
        assert cluster.state(topic, 0)["leader"] == 1
    with connected(cluster.zookeeper) as client:
        found = acls(client, "/")
    shared = [(31, "sasl", "kafka"), (1, "world", "anyone")]
    everybody = [(31, "world", "anyone")]
    assert found.pop("/") == everybody  # the test has made the chroot
    assert found.pop("/consumers") == everybody
    sensitive = {path for path, acl in found.items() if acl is None}
    assert sensitive == {"/config/users", "/config/brokers"}
    assert {path: acl for path, acl in found.items() if acl != shared} == dict.fromkeys(sensitive)
    assert len([path for path in found if path.endswith("/state")]) == 6
