"""A store on a ZooKeeper in a dict."""

from __future__ import annotations

import pytest

from minikafka.server.zookeeper.store import ZkStore
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper


@pytest.fixture
def zookeeper() -> DirectZookeeper:
    return DirectZookeeper()


@pytest.fixture
async def session(zookeeper: DirectZookeeper) -> DirectSession:
    return await zookeeper.open("", 0, 0)


@pytest.fixture
async def store(session: DirectSession) -> ZkStore:
    """With the persistent paths."""
    store = ZkStore(session)
    await store.create_persistent_paths()
    session.zookeeper.multis.clear()
    return store
