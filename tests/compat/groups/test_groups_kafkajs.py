"""Groups of kafkajs 2.2.4, which npm brings; skipped where there is no node or no npm registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.group_clients import Clients
from tests.support.clients.group_scenes import PARTITIONS, join_leave_die_and_resume
from tests.support.clients.places import Cluster
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat


@pytest.fixture
def clients(cluster: Cluster, topic: str, tmp_path: Path, node_modules: Path) -> Iterator[Clients]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    wait_for_leaders(cluster.bootstrap, topic, PARTITIONS)
    options = {"node_modules": str(node_modules)}
    with Clients(cluster.bootstrap, tmp_path, f"g-{topic}", topic, **options) as clients:
        yield clients


@pytest.mark.mission("HB-6")
def test_join_leave_die_and_resume(cluster: Cluster, topic: str, clients: Clients) -> None:
    join_leave_die_and_resume("kafkajs", cluster.bootstrap, topic, clients)


def test_it_has_no_protocol_in_common_with_others(
    cluster: Cluster, topic: str, clients: Clients
) -> None:
    """Its assigner is its own: a group of others refuses it, and goes on undisturbed."""
    member = clients.start("confluent")
    clients.until_shared([member], PARTITIONS)
    stranger = clients.start("kafkajs")
    assert stranger.process.wait(60) == 1
    assert "INCONSISTENT_GROUP_PROTOCOL" in stranger.complaints()
    assert member.assignments[-1] == list(range(PARTITIONS))
