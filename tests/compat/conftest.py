"""One cluster of three brokers on a real ZooKeeper for all client tests."""

import uuid
from collections.abc import Iterator

import pytest

from scripts.lib.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = ("group.initial.rebalance.delay.ms=500",)
    with Cluster(tmp_path_factory.mktemp("cluster"), overrides=overrides) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """An unused name."""
    return f"t-{uuid.uuid4().hex[:10]}"
