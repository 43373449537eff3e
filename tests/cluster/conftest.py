"""What cluster tests share: one real ZooKeeper server for those that do not harm it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.zookeeper_process import ZookeeperProcess, running_zookeeper


@pytest.fixture(scope="session")
def shared_zookeeper() -> Iterator[ZookeeperProcess]:
    """Use a chroot of your own, and do not kill it."""
    with running_zookeeper() as server:
        yield server


@pytest.fixture
def own_zookeeper() -> Iterator[ZookeeperProcess]:
    """May be killed, paused, started again."""
    with running_zookeeper() as server:
        yield server
