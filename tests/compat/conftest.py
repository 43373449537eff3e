"""Three brokers for all client tests: inside the process, or on a real ZooKeeper."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.inside.cluster import InsideCluster
from scripts.lib.cluster import Cluster as ClusterOfProcesses
from tests.support.clients.places import INSIDE, Cluster

KAFKAJS = "kafkajs@2.2.4"
INSTALL_LIMIT_S = 120
# Members may have short sessions, and a transaction that has timed out is aborted within a second.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="module")
def inside() -> Iterator[Cluster]:
    """Tests of a module share them in each worker. Name topics, groups and clients after the test.
    They start within 0.1 s; for longer than a module they would disturb other tests' threads."""
    with InsideCluster(3, SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = tuple("=".join(each) for each in SETTINGS.items())
    with ClusterOfProcesses(tmp_path_factory.mktemp("cluster"), overrides=overrides) as running:
        yield running


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Brokers in the place that the test has as parameter, see ``places``; else inside."""
    found: Cluster = request.getfixturevalue(getattr(request, "param", INSIDE))
    return found


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with kafkajs, which npm brings."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm is not installed")
    home = tmp_path_factory.mktemp("kafkajs")
    command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund"]
    command += ["--fetch-retries=1", KAFKAJS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not bring {KAFKAJS} within {INSTALL_LIMIT_S} s")
    if done.returncode != 0:
        pytest.skip(f"npm does not bring {KAFKAJS}: {done.stderr.strip()[-300:]}")
    return home / "node_modules"


@pytest.fixture
def topic() -> str:
    """An unused name."""
    return f"t-{uuid.uuid4().hex[:10]}"
