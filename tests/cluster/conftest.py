"""What cluster tests share: a ZooKeeper server for those that do not harm it, three brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.real_cluster import RealCluster
from tests.support.zookeeper.process import ZookeeperProcess, running_zookeeper


@pytest.fixture(scope="package")
def shared_zookeeper() -> Iterator[ZookeeperProcess]:
    """Use a chroot of your own, and do not kill it."""
    with running_zookeeper() as server:
        yield server


@pytest.fixture
def own_zookeeper() -> Iterator[ZookeeperProcess]:
    """May be killed, paused, started again."""
    with running_zookeeper() as server:
        yield server


@pytest.fixture(scope="package")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Three brokers that notice a death within two seconds. Leave them as whole as they were."""
    overrides = (
        "zookeeper.session.timeout.ms=2000",
        "replica.lag.time.max.ms=3000",
        "log.segment.delete.delay.ms=500",
    )
    with RealCluster(tmp_path_factory.mktemp("trio"), overrides=overrides) as running:
        yield running
