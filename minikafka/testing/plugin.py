"""The pytest plugin: the fixtures ``minikafka`` (inside the process), ``minikafka_cluster``
(processes) and ``simulated_cluster``.

The plugin imports nothing of minikafka until a fixture is used, because pytest loads it in every
test run where minikafka is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from minikafka.inside.cluster import InsideCluster
    from minikafka.testing.processes import ClusterProcesses
    from minikafka.testing.simulated import Play
    from minikafka.testing.view import TestView


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "minikafka_brokers",
        "how many brokers minikafka and minikafka_cluster have (1)",
        default="1",
    )
    parser.addini(
        "minikafka_settings", "broker settings, one key=value a line", type="linelist", default=[]
    )


@pytest.fixture(scope="session")
def minikafka_inside(request: pytest.FixtureRequest) -> Iterator[InsideCluster]:
    """Brokers inside this process, for this test session. With pytest-xdist each worker has some.
    A test that kills brokers takes this fixture, and starts them again."""
    from minikafka.inside.cluster import InsideCluster

    config = request.config
    settings = dict(line.split("=", 1) for line in config.getini("minikafka_settings"))
    with InsideCluster(int(config.getini("minikafka_brokers")), settings) as cluster:
        yield cluster


@pytest.fixture
def minikafka(
    request: pytest.FixtureRequest, minikafka_inside: InsideCluster
) -> Iterator[TestView]:
    """A cluster inside this process as one test sees it: topics and groups that the test makes are
    deleted at its end. See ``minikafka.testing.view``."""
    from minikafka.testing.view import TestView

    name = "".join(c if c.isalnum() or c in "_-" else "-" for c in request.node.name)
    view = TestView(minikafka_inside, name[:200])
    yield view
    view.clean()


@pytest.fixture(scope="session")
def minikafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    """Brokers and a ZooKeeper for this test session, on free ports; ``bootstrap`` is their address.
    With pytest-xdist each worker has one. Tests share it: name topics after the test."""
    from minikafka.testing.processes import ClusterProcesses

    config = request.config
    cluster = ClusterProcesses(
        tmp_path_factory.mktemp("minikafka"),
        int(config.getini("minikafka_brokers")),
        config.getini("minikafka_settings"),
    )
    with cluster:
        yield cluster


@pytest.fixture
def simulated_cluster() -> Play:
    """Return the function ``play``: ``simulated_cluster(scenario, seed=1)`` runs a coroutine
    function with a cluster in simulated time. See ``minikafka.testing.simulated``."""
    from minikafka.testing.simulated import play

    return play


@pytest.fixture(scope="session")
def minikafka_secure_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    """As ``minikafka_cluster``, with TLS, logins and ACLs: ``client_settings`` returns the settings
    of a client. Names of topics and groups of the user ``app`` begin with ``app-``."""
    from minikafka.testing.processes import ClusterProcesses

    config = request.config
    cluster = ClusterProcesses(
        tmp_path_factory.mktemp("minikafka-secure"),
        int(config.getini("minikafka_brokers")),
        config.getini("minikafka_settings"),
        secure=True,
    )
    with cluster:
        yield cluster
