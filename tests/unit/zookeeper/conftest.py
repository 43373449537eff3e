"""A store on a ZooKeeper in a dict."""

from __future__ import annotations

import pytest

from minikafka.zookeeper.store import ZkStore
from tests.support.znode_fake import FakeSession, FakeZookeeper


@pytest.fixture
def zookeeper() -> FakeZookeeper:
    return FakeZookeeper()


@pytest.fixture
async def session(zookeeper: FakeZookeeper) -> FakeSession:
    return await zookeeper.open("", 0, 0)


@pytest.fixture
async def store(session: FakeSession) -> ZkStore:
    """With the persistent paths."""
    store = ZkStore(session)
    await store.create_persistent_paths()
    session.zookeeper.multis.clear()
    return store
