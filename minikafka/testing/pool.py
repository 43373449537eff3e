"""Clusters that the tests of a session share, so that few have to be started."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from minikafka.testing.cluster import AnyCluster, NotInThisPlace
from minikafka.testing.marks import ClusterChoice

MAX_KEPT = 4  # clusters that are kept for tests to come


def start_cluster(choice: ClusterChoice, directory: Callable[[], Path]) -> AnyCluster:
    """Start a cluster in a place whose clusters can be shared. ``directory`` makes a folder for one
    that needs it. Raises ConfigError, ClusterNotStarted, OSError, and NotInThisPlace for simulated
    time, which begins with a test and ends with it."""
    settings = dict(choice.settings)
    if choice.where == "inside":
        from minikafka.testing.inside_place import InsidePlace

        return InsidePlace.start_brokers(choice.brokers, settings)
    if choice.where == "processes":
        from minikafka.testing.processes import ProcessesPlace

        return ProcessesPlace(choice.brokers, settings, directory())
    raise NotInThisPlace("blocking", choice.where)


class ClusterPool:
    """Keeps the ``MAX_KEPT`` clusters that were used last, until the end of the context."""

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory
        self._clusters: dict[ClusterChoice, AnyCluster] = {}  # the one used last is the last
        self._in_use: list[AnyCluster] = []
        self._unfit: list[AnyCluster] = []  # to be closed when they are not in use any more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close([*self._clusters.values(), *self._unfit])
        self._clusters.clear()

    def take(self, choice: ClusterChoice) -> AnyCluster:
        """Return the cluster for a choice; it is started if there is none. Call ``give_back`` when
        it is not used any more. Raises as ``start_cluster``."""
        cluster = self._clusters.pop(choice, None)
        if cluster is None:
            self._make_room()
            cluster = start_cluster(choice, self._directory)
        self._clusters[choice] = cluster
        self._in_use.append(cluster)
        return cluster

    def give_back(self, cluster: AnyCluster, is_healthy: bool) -> None:
        """End a use. A cluster that is not healthy, or has other brokers than it was started with,
        gets no further use, and is closed after the last one."""
        self._in_use.remove(cluster)
        if cluster in self._clusters.values() and not (is_healthy and cluster.is_as_started):
            self._clusters = {c: kept for c, kept in self._clusters.items() if kept is not cluster}
            self._unfit.append(cluster)
        over = [each for each in self._unfit if each not in self._in_use]
        self._unfit = [each for each in self._unfit if each not in over]
        self._close(over)

    def _make_room(self) -> None:
        idle = [choice for choice, kept in self._clusters.items() if kept not in self._in_use]
        surplus = max(0, len(self._clusters) + 1 - MAX_KEPT)
        self._close([self._clusters.pop(choice) for choice in idle[:surplus]])

    def _close(self, clusters: list[AnyCluster]) -> None:
        with ExitStack() as stack:  # an error of one does not leave the others open
            for cluster in clusters:
                stack.callback(cluster.close)
