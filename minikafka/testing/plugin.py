"""The pytest plugin: the fixture ``minikafka`` and its mark, and the fixtures of single places.

The mark chooses the cluster: ``@pytest.mark.minikafka(brokers=3, where="processes")``. The plugin
imports nothing of minikafka until a mark or a fixture is used, because pytest loads it in every
test run where minikafka is installed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from minikafka.testing.inside.cluster import InsideCluster
    from minikafka.testing.marks import ClusterChoice
    from minikafka.testing.pool import ClusterPool
    from minikafka.testing.processes import ClusterProcesses
    from minikafka.testing.simulated import Play
    from minikafka.testing.view import TestView

MARK = (
    "minikafka(brokers=1, where=None, settings={}, needs=(), seed=0, reset=False): the cluster of "
    "the fixture minikafka; where is inside, processes or simulated, by default the fastest that "
    "can what needs lists; with reset it is as good as new before the test and after it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("minikafka_brokers", "how many brokers clusters have (1)", default="1")
    parser.addini(
        "minikafka_settings", "broker settings, one key=value a line", type="linelist", default=[]
    )
    parser.addini(
        "minikafka_where",
        "where the fixture minikafka has its cluster: inside, processes or simulated",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A mark that says something impossible ends the session before its first test. A worker of
    pytest-xdist cannot do that: there it fails the test."""
    if not hasattr(config, "workerinput"):
        for item in items:
            if item.get_closest_marker("minikafka") is not None:
                choice_of(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("minikafka") is not None:
        try:
            choice_of(item)
        except pytest.UsageError as error:
            pytest.fail(str(error), pytrace=False)


def choice_of(item: pytest.Item) -> ClusterChoice:
    """Return the cluster that a test has chosen. Raises UsageError."""
    from minikafka.testing.marks import MarkError, cluster_choice

    marks = [(mark.args, mark.kwargs) for mark in item.iter_markers("minikafka")]
    try:
        return cluster_choice(marks, _defaults(item.config))
    except MarkError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def _defaults(config: pytest.Config) -> dict[str, Any]:
    """The ini options as keywords of the mark. Raises MarkError."""
    from minikafka.testing.marks import MarkError, settings_of_lines

    brokers = config.getini("minikafka_brokers")
    if not brokers.isdecimal():
        raise MarkError(f"minikafka_brokers is a number, not {brokers!r}")
    return {
        "brokers": int(brokers),
        "where": config.getini("minikafka_where") or None,
        "settings": settings_of_lines(config.getini("minikafka_settings")),
    }


# ------------------------------------------------------------------------------------ one test


@pytest.fixture(scope="session")
def minikafka_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    """The clusters that tests of this session share. With pytest-xdist each worker has some."""
    from minikafka.testing.pool import ClusterPool

    def directory() -> Path:
        return tmp_path_factory.mktemp("minikafka")

    with ClusterPool(directory) as pool:
        yield pool


@pytest.fixture
def minikafka(
    request: pytest.FixtureRequest, minikafka_clusters: ClusterPool
) -> Iterator[TestView]:
    """A cluster as one test sees it: see ``minikafka.testing.view``. What the test has made and
    done is undone at its end."""
    from minikafka.testing.standalone import topic_prefix
    from minikafka.testing.view import TestView

    choice = choice_of(request.node)
    name = topic_prefix(request.node.name)
    if choice.where == "simulated":
        from minikafka.testing.simulated import SimulatedPlace

        if not inspect.iscoroutinefunction(_function_of(request.node)):
            raise pytest.UsageError("a test in simulated time is a coroutine function: async def")
        yield TestView(SimulatedPlace(choice.brokers, dict(choice.settings), choice.seed), name)
        return
    cluster = minikafka_clusters.take(choice)
    healthy = False
    try:
        if choice.reset:
            cluster.renew()
        view = TestView(cluster, name)
        view.begin()
        yield view
        view.reset()
        if choice.reset:
            cluster.renew()
        healthy = True
    finally:
        minikafka_clusters.give_back(cluster, healthy)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test whose cluster is simulated in simulated time, with or without a plugin that runs
    coroutines."""
    view = _view_of(pyfuncitem)
    if view is None or view.where != "simulated":
        return None
    from minikafka.testing.simulated import SimulatedPlace

    assert isinstance(view.cluster, SimulatedPlace)
    function = _function_of(pyfuncitem)
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    view.cluster.play(lambda: function(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that has passed without one of its faults."""
    result = yield
    view = _view_of(item)
    if view is not None and (complaint := view.aio.added_faults.complaint()):
        pytest.fail(complaint, pytrace=False)
    return result


def _view_of(item: pytest.Item) -> TestView | None:
    """The fixture ``minikafka`` of a test, if it has it."""
    found = getattr(item, "funcargs", {}).get("minikafka")
    module = sys.modules.get("minikafka.testing.view")  # it is imported with the fixture
    return found if module is not None and isinstance(found, module.TestView) else None


def _function_of(item: pytest.Item) -> Any:
    """The function of a test. pytest-asyncio replaces a coroutine function by one that runs it."""
    return inspect.unwrap(getattr(item, "obj", None) or item.function)  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------- single places


@pytest.fixture(scope="session")
def minikafka_inside(
    request: pytest.FixtureRequest, minikafka_clusters: ClusterPool
) -> Iterator[InsideCluster]:
    """Brokers inside this process, for this test session, which the fixture ``minikafka`` has, too,
    in tests without a mark."""
    from minikafka.testing.inside_place import InsidePlace
    from minikafka.testing.marks import MarkError, cluster_choice

    try:
        choice = cluster_choice([((), {"where": "inside"})], _defaults(request.config))
    except MarkError as error:
        raise pytest.UsageError(str(error)) from None
    cluster = minikafka_clusters.take(choice)
    assert isinstance(cluster, InsidePlace)
    yield cluster.inside
    minikafka_clusters.give_back(cluster, is_healthy=True)


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
def minikafka_simulated() -> Play:
    """Return the function ``play``: ``minikafka_simulated(scenario, seed=1)`` runs a coroutine
    function with a cluster in simulated time. See ``minikafka.testing.simulated``."""
    from minikafka.testing.simulated import play

    return play


@pytest.fixture(scope="session")
def minikafka_secure_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    """Broker processes with TLS, logins and ACLs: ``client_settings`` returns the settings of a
    client. Names of topics and groups of the user ``app`` begin with ``app-``."""
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
