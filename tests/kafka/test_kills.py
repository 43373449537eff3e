"""Each broker of a mixed cluster is stopped and killed under load, in each of its roles."""

from __future__ import annotations

import contextlib
import itertools
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.exactly_once import ExactlyOnce
from tests.support.cluster.migration_matrix import MATRIX_ROW, matrix_row
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.verify_process import VerifyProcess

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka-migrations")]

# As group and as transactional id they belong to partitions 0, 1 and 2 of three, and so to a
# coordinator on each broker.
APPLICATIONS = ("orders", "shipments", "payments")


class Load:
    """An idempotent load on all brokers, and three applications with transactions."""

    def __init__(self, verify: VerifyProcess, applications: list[ExactlyOnce]) -> None:
        self._verify, self._applications = verify, applications

    def send(self) -> None:
        with ThreadPoolExecutor() as pool:  # each waits for a producer id
            deque(pool.map(ExactlyOnce.send, self._applications))

    def until_processed(self, what: str) -> None:
        """Wait until the applications have processed all, and the other load goes on."""
        for application in self._applications:
            application.until_processed(what)
        self._verify.until_more()

    def finish(self) -> dict[str, object]:
        """End the load. Nothing may be lost, doubled or reordered."""
        for application in self._applications:
            application.check()
        return self._verify.finish()


@contextlib.contextmanager
def loaded(cluster: MixedCluster, home: Path) -> Iterator[Load]:
    """Yield the load on a cluster. Each broker leads, follows and coordinates some of it."""
    brokers = list(cluster.broker_ids)
    for number, name in enumerate(APPLICATIONS):
        replicas = brokers[number:] + brokers[:number]
        for topic in (f"{name}-source", f"{name}-target"):
            cluster.create_topic(topic, replicas)
    with contextlib.ExitStack() as stack:
        applications = [
            stack.enter_context(ExactlyOnce(cluster, home / f"{name}.log", name))
            for name in APPLICATIONS
        ]
        verify = stack.enter_context(VerifyProcess(cluster.bootstrap, home, "--topic", "verified"))
        yield Load(verify, applications)


@pytest.mark.mission("MIX-51")
@pytest.mark.parametrize(
    ("kinds", "of_controller", "of_others"),
    [
        ((NEWEST, OURS, OURS), signal.SIGTERM, signal.SIGKILL),
        ((OURS, NEWEST, NEWEST), signal.SIGKILL, signal.SIGTERM),
    ],
    ids=["1+2", "2+1"],
)
def test_no_record_is_lost_when_a_broker_of_either_kind_ends(
    mixed: Mixed,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    kinds: tuple[str, ...],
    of_controller: signal.Signals,
    of_others: signal.Signals,
) -> None:
    """A broker of each kind is ended, as controller and not. It leads, follows and coordinates a
    third of everything. Each signal meets each kind in both roles, in one of the clusters."""
    with mixed(*kinds) as cluster, loaded(cluster, tmp_path) as load:
        rounds = list(itertools.product((1, 2), repeat=2))
        while rounds:
            now = cluster.controller()  # a round that needs no other one is first
            victim, controller = next((each for each in rounds if each[1] == now), rounds[0])
            rounds.remove((victim, controller))
            number = of_controller if victim == controller else of_others
            cluster.elect_preferred_leaders()
            cluster.make_controller(controller)
            load.send()
            cluster.end_broker(victim, number)
            load.until_processed(f"records after {number.name} for broker {victim}")
            cluster.restart_broker(victim)
            cluster.until_ready()
        killed = f"{', '.join(kinds)}: brokers of each kind stopped and killed"
        record_property(MATRIX_ROW, matrix_row(killed, load.finish()))
