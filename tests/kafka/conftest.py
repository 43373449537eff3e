"""What tests beside official Apache Kafka share: a ZooKeeper, and mixed clusters on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import pytest

from scripts.lib.apache_kafka import VERSIONS, NoApacheKafka, java_command
from tests.support.cluster.class_archive import archive_classes
from tests.support.cluster.mixed_cluster import MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm, tool_jvm
from tests.support.zookeeper.process import ZookeeperProcess, running_zookeeper

Mixed: TypeAlias = Callable[..., AbstractContextManager[MixedCluster]]


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
