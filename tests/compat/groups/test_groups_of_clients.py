"""Groups of real consumers: join, leave, die, commit and resume, in one library and in several."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.group_clients import Clients
from tests.support.clients.group_scenes import (
    PARTITIONS,
    SHORT_SESSION_MS,
    committed,
    join_leave_die_and_resume,
    produce,
)
from tests.support.clients.places import Cluster, on_processes
from tests.support.cluster.cluster_state import until
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat
LIBRARIES = ["confluent", "kafka-python", "aiokafka"]
EPOCHS = "confluent-epochs"  # the protocol of KIP-848


@pytest.fixture
def clients(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[Clients]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    wait_for_leaders(cluster.bootstrap, topic, PARTITIONS)
    with Clients(cluster.bootstrap, tmp_path, f"g-{topic}", topic) as clients:
        yield clients


@pytest.mark.mission("HB-6", "CFG-4", "IN-98", "G848-9")
@pytest.mark.parametrize("library", [*LIBRARIES, EPOCHS])
def test_join_leave_die_and_resume(
    library: str, cluster: Cluster, topic: str, clients: Clients
) -> None:
    join_leave_die_and_resume(library, cluster.bootstrap, topic, clients)


@on_processes
@pytest.mark.mission("HB-6", "IN-98")
def test_several_libraries_in_one_group(cluster: Cluster, topic: str, clients: Clients) -> None:
    """They all know range, and so share the partitions under it."""
    members = [clients.start(library, session_ms=SHORT_SESSION_MS) for library in LIBRARIES]
    clients.until_shared(members, PARTITIONS)
    expected = produce(cluster.bootstrap, topic, 0, 400)
    clients.until_read(expected)
    members[0].stop()
    clients.until_shared(members[1:], PARTITIONS)
    members[2].kill()
    clients.until_shared([members[1]], PARTITIONS)
    expected |= produce(cluster.bootstrap, topic, 400, 100)
    clients.until_read(expected)


@pytest.mark.parametrize(
    ("library", "strategy"),
    [
        ("confluent", "roundrobin"),
        ("confluent", "cooperative-sticky"),
        ("kafka-python", "roundrobin"),
        ("kafka-python", "sticky"),
        ("aiokafka", "roundrobin"),
        ("aiokafka", "sticky"),
    ],
)
def test_strategies(
    library: str, strategy: str, cluster: Cluster, topic: str, clients: Clients
) -> None:
    first = clients.start(library, strategy=strategy)
    clients.until_shared([first], PARTITIONS)
    second = clients.start(library, strategy=strategy)
    clients.until_shared([first, second], PARTITIONS)
    if strategy == "cooperative-sticky":
        had = first.assignments
        assert [] not in had[had.index(list(range(PARTITIONS))) :], "it kept what it could"
    expected = produce(cluster.bootstrap, topic, 0, 100)
    clients.until_read(expected)
    second.stop()
    clients.until_shared([first], PARTITIONS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_static_member_that_is_restarted_quickly(
    library: str, cluster: Cluster, topic: str, clients: Clients
) -> None:
    first = clients.start(library, instance="one")
    second = clients.start(library, instance="two")
    clients.until_shared([first, second], PARTITIONS)
    had, others = second.assigned, len(first.assignments)
    second.kill()
    again = clients.start(library, instance="two")
    until(lambda: again.assigned == had, "the same partitions again", 20)
    assert len(first.assignments) == others, "the other one has not noticed"
    expected = produce(cluster.bootstrap, topic, 0, 100)
    clients.until_read(expected)


def test_an_administrator_looks_at_groups(cluster: Cluster, topic: str, clients: Clients) -> None:
    group = f"g-{topic}"
    member = clients.start("confluent")
    clients.until_shared([member], PARTITIONS)
    clients.until_read(produce(cluster.bootstrap, topic, 0, 20))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    until(lambda: committed(cluster.bootstrap, group, topic) == 20, "all committed")
    listed = {g.group_id: g.state.name for g in admin.list_consumer_groups().result(30).valid}
    assert listed[group] == "STABLE"
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert described.state.name == "STABLE"
    assert described.partition_assignor == "range"
    assert [len(m.assignment.topic_partitions) for m in described.members] == [PARTITIONS]
    assert described.members[0].client_id == "rdkafka"
    with pytest.raises(Exception, match=r"(?i)non_empty|not empty"):
        admin.delete_consumer_groups([group])[group].result(30)
    member.stop()
    moved = [TopicPartition(topic, n, 3) for n in range(PARTITIONS)]
    request = [ConsumerGroupTopicPartitions(group, moved)]
    admin.alter_consumer_group_offsets(request)[group].result(30)
    assert committed(cluster.bootstrap, group, topic) == 3 * PARTITIONS
    clients.start("confluent")
    deadline = time.monotonic() + 30
    while len(clients.all[-1].records) < 20 - 3 * PARTITIONS:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert {offset for _, offset, _ in clients.all[-1].records} == {3, 4}
    clients.all[-1].stop()
    admin.delete_consumer_groups([group])[group].result(30)
    assert committed(cluster.bootstrap, group, topic) == 0
