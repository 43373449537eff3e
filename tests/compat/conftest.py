"""Three brokers for all client tests: inside the process, or on a real ZooKeeper."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.cluster import Cluster as ClusterOfProcesses
from tests.support import npm
from tests.support.clients.places import INSIDE, Cluster

KAFKAJS = "kafkajs@2.2.4"
# Members may have short sessions, and a transaction that has timed out is aborted within a second.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="module")
def inside() -> Iterator[Cluster]:
    """Tests of a module share them in each worker. Name topics, groups and clients after the test.
    They start within 0.1 s; for longer than a module they would disturb other tests' threads."""
    with InsideCluster(3, SETTINGS) as running:
        yield running


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = tuple("=".join(each) for each in SETTINGS.items())
    with ClusterOfProcesses(tmp_path_factory.mktemp("cluster"), overrides=overrides) as running:
        yield running


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Brokers in the place that the test has as parameter, see ``places``; else inside."""
    found: Cluster = request.getfixturevalue(getattr(request, "param", INSIDE))
    return found


@pytest.fixture(scope="package")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with kafkajs, which npm brings."""
    return npm.node_modules(tmp_path_factory.mktemp("kafkajs"), KAFKAJS)


@pytest.fixture
def topic() -> str:
    """An unused name."""
    return f"t-{uuid.uuid4().hex[:10]}"
