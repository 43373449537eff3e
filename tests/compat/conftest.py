"""One cluster of three brokers on a real ZooKeeper for all client tests."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.lib.cluster import Cluster

KAFKAJS = "kafkajs@2.2.4"
INSTALL_LIMIT_S = 120


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = ("group.initial.rebalance.delay.ms=500",)
    with Cluster(tmp_path_factory.mktemp("cluster"), overrides=overrides) as running:
        yield running


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
