"""What tests beside official Apache Kafka share: a ZooKeeper and mixed clusters on it, and two
brokers with what Kafka 4 has, an official one and one of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pytest

from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.apache_kafka import VERSIONS, NoApacheKafka, java_command
from scripts.lib.kraft_broker import RACK, kraft_broker
from tests.support.cluster.class_archive import archive_classes
from tests.support.cluster.mixed_cluster import MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm, tool_jvm
from tests.support.zookeeper.process import ZookeeperProcess, running_zookeeper

Mixed: TypeAlias = Callable[..., AbstractContextManager[MixedCluster]]

# Of ``theirs`` and ``ours``. Each file has names of topics, groups and transactional ids that no
# other one has, and compares only what it has made itself.
KAFKA_4_SETTINGS: dict[str, Any] = {
    "broker.rack": RACK,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder where an official Kafka cannot be started."""
    try:
        for version in VERSIONS:
            java_command(version, "")
    except NoApacheKafka as missing:
        for item in items:
            if item.get_closest_marker("kafka"):
                item.add_marker(pytest.mark.skip(reason=str(missing)))


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperProcess]:
    with running_zookeeper() as server:
        archive_classes(tmp_path_factory.mktemp("archive"), f"{server.connect}/archive")
        yield server


@pytest.fixture(scope="package")
def mixed(zookeeper: ZookeeperProcess, tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    """Return the function that makes a cluster from kinds and properties, each in a new chroot."""

    def make(
        *kinds: str,
        properties: Mapping[str, object] = {},
        own: Mapping[int, Mapping[str, object]] = {},
        more_listeners: Sequence[str] = (),
        more_brokers: int = 0,
    ) -> MixedCluster:
        home = tmp_path_factory.mktemp("mixed")
        chroot = f"{zookeeper.connect}/{home.name}"
        return MixedCluster(home, chroot, kinds, properties, own, more_listeners, more_brokers)

    return make


@pytest.fixture(scope="package")
def tools() -> Iterator[ToolJvm]:
    """A JVM that runs Kafka's tools, one at a time."""
    with tool_jvm() as running:
        yield running


@pytest.fixture(scope="package")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an official broker of Kafka 4, with KRaft."""
    try:
        with kraft_broker(tmp_path_factory.mktemp("kraft"), KAFKA_4_SETTINGS) as address:
            yield address
    except NoApacheKafka as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package")
def ours() -> Iterator[str]:
    """The address of a broker of ours that has the settings of ``theirs``."""
    with InsideCluster(1, KAFKA_4_SETTINGS) as cluster:
        yield cluster.bootstrap
