"""Clusters as processes: the ports that must be free are those that ``up`` uses."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

import pytest

from minikafka.cli.processes import up
from minikafka.testing import processes
from minikafka.testing.processes import (
    ClusterNotStarted,
    ClusterProcesses,
    debug_offset,
    free_ports,
)

pytestmark = pytest.mark.mission("IN-50")


@pytest.mark.parametrize("brokers", [1, 3, 100, 250])
def test_ports_are_checked_where_up_listens(brokers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []

    def is_free(port: int) -> bool:
        checked.append(port)
        return True

    monkeypatch.setattr(processes, "_is_free", is_free)
    ports = free_ports(brokers)
    line = ["--brokers", str(brokers), "--base-port", str(ports.first)]
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    supervisor = up.Supervisor(parser.parse_args([*line, "--zookeeper-port", str(ports.zookeeper)]))
    used = [*supervisor._ports, *supervisor._debug_ports, supervisor._zookeeper_port]
    assert sorted(checked) == sorted(used)
    assert len(set(used)) == 2 * brokers + 1
    assert supervisor._debug_ports[0] == ports.first_debug == ports.first + debug_offset(brokers)


def test_a_port_in_use_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert not processes._is_free(port)
    answers = iter([False, True, True, True])
    monkeypatch.setattr(processes, "_is_free", lambda _: next(answers))
    assert free_ports(1).first
    assert next(answers, None) is None


def test_no_connection_can_take_the_port_of_a_broker_that_was_killed() -> None:
    """As the near end of a connection to anywhere, in the range that is usual in Linux."""
    assert all(free_ports(3).zookeeper < 32768 for _ in range(100))


def test_a_cluster_that_cannot_start_is_tried_once(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotStarted) as caught:
        ClusterProcesses(tmp_path, settings=["num.partitions=many"]).start()
    assert str(caught.value).count("minikafka: ") == 1
