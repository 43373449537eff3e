"""How a cluster stops: in order, without ZooKeeper, on a second signal, without its supervisor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.cluster_state import is_alive, until
from tests.support.cluster.load import Load
from tests.support.cluster.lone_broker import LoneBroker
from tests.support.cluster.real_cluster import RealCluster
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

STOP_LIMIT_S = 15.0  # a few seconds on a machine that has nothing else to do


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path / "pair", brokers=2) as running:
        yield running
        leftovers = [pid for pid in running.seen if is_alive(pid)]
        for pid in leftovers:
            os.kill(pid, signal.SIGKILL)
    assert not leftovers, f"left behind: {leftovers}"


def until_all_gone(cluster: RealCluster) -> None:
    until(lambda: not any(map(is_alive, cluster.seen)), "all children gone", STOP_LIMIT_S)


@pytest.mark.mission("CSH-1", "CSH-2")
def test_sigterm_stops_everything_in_order(pair: RealCluster) -> None:
    pair.create_topic("busy", partitions=4, replication_factor=2)
    pair.remember_processes()
    with Load(pair.bootstrap, "busy"):
        pair.up.terminate()
        assert pair.up.wait(STOP_LIMIT_S) == 0
        until_all_gone(pair)
    for broker_id in pair.broker_ids:
        assert (pair.data(broker_id) / ".kafka_cleanshutdown").exists()
        assert not (pair.home(f"broker-{broker_id}") / "pid").exists()


def test_sigterm_stops_everything_though_zookeeper_is_gone(pair: RealCluster) -> None:
    pair.create_topic("busy", partitions=4, replication_factor=2)
    pair.remember_processes()
    with Load(pair.bootstrap, "busy"):
        pair.kill_zookeeper()
        pair.up.terminate()
        assert pair.up.wait(STOP_LIMIT_S) == 0
        until_all_gone(pair)
    for broker_id in pair.broker_ids:
        assert (pair.data(broker_id) / ".kafka_cleanshutdown").exists(), "logs are settled anyway"


def test_a_second_sigterm_ends_even_a_frozen_broker(pair: RealCluster) -> None:
    pair.remember_processes()
    controller = pair.znode("/controller")["brokerid"]
    os.kill(pair.broker_pid(3 - controller), signal.SIGSTOP)
    pair.up.terminate()
    pid_file = pair.home(f"broker-{controller}") / "pid"
    until(lambda: not pid_file.exists(), "the other broker has stopped", STOP_LIMIT_S)
    assert pair.up.poll() is None, "it waits for the frozen one"
    pair.up.terminate()
    pair.up.wait(STOP_LIMIT_S)
    until_all_gone(pair)


@pytest.mark.mission("CSH-1")
def test_a_second_sigterm_cuts_a_controlled_shutdown_short(pair: RealCluster) -> None:
    """The controller is frozen. The logs are brought to an end all the same."""
    pair.create_topic("held", replication_factor=2)
    controller = pair.znode("/controller")["brokerid"]
    leaving = 3 - controller
    frozen, pid = pair.broker_pid(controller), pair.broker_pid(leaving)
    os.kill(frozen, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGTERM)
        until(lambda: "stop_requested" in pair.log(leaving), "the first signal is heard", 60)
        pair.end_broker(leaving, signal.SIGTERM)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert "hurried=True" in pair.log(leaving)
    assert "controlled_shutdown_failed" in pair.log(leaving)
    assert (pair.data(leaving) / ".kafka_cleanshutdown").exists()


def test_children_end_with_a_killed_supervisor(pair: RealCluster) -> None:
    pair.create_topic("busy", replication_factor=2)
    pair.remember_processes()
    pair.up.kill()
    pair.up.wait(STOP_LIMIT_S)
    until_all_gone(pair)
    for broker_id in pair.broker_ids:
        assert "standard input ended" in pair.log(broker_id)
        assert (pair.data(broker_id) / ".kafka_cleanshutdown").exists()


def test_a_dead_child_is_reported_and_the_others_go_on(pair: RealCluster) -> None:
    pair.create_topic("shared", replication_factor=2)
    pair.until_isr("shared", 0, [1, 2])
    pair.end_broker(2, signal.SIGKILL)
    with Load(pair.bootstrap, "shared") as load:
        load.finish()
    pair.up.terminate()
    assert pair.up.wait(STOP_LIMIT_S) == 0
    assert "broker 2 died: killed by SIGKILL" in pair.complaints()


def test_brokers_that_others_have_started_outlive_up(pair: RealCluster) -> None:
    """When all processes of `up` have ended by themselves, it ends, and nobody has asked it to stop
    anything."""
    for broker_id in pair.broker_ids:
        pair.end_broker(broker_id, signal.SIGKILL)
        pair.restart_broker(broker_id)
    pair.until_whole()
    pids = [pair.broker_pid(broker_id) for broker_id in pair.broker_ids]
    pair.kill_zookeeper()
    assert pair.up.wait(STOP_LIMIT_S) == 1
    pair.restart_zookeeper()
    pair.until_whole()
    assert [pair.broker_pid(broker_id) for broker_id in pair.broker_ids] == pids
    pair.create_topic("goes-on", replication_factor=2)


def test_a_broker_that_waits_for_zookeeper_can_be_stopped(
    tmp_path: Path, own_zookeeper: ZookeeperProcess
) -> None:
    own_zookeeper.pause()
    broker = LoneBroker(tmp_path, own_zookeeper.connect)
    try:
        until(lambda: _catches(broker.process.pid, signal.SIGTERM), "signals are handled")
        broker.process.terminate()
        assert broker.process.wait(STOP_LIMIT_S) == 0
    finally:
        own_zookeeper.resume()
        broker.process.kill()


def test_a_hanging_zookeeper_does_not_keep_a_broker(
    tmp_path: Path, own_zookeeper: ZookeeperProcess
) -> None:
    broker = LoneBroker(tmp_path, own_zookeeper.connect)
    try:
        broker.until_logged("controller_failover_completed")
        own_zookeeper.pause()
        started = time.monotonic()
        broker.process.terminate()
        assert broker.process.wait(STOP_LIMIT_S * 2) == 0
        assert time.monotonic() - started < STOP_LIMIT_S * 2
    finally:
        own_zookeeper.resume()
        broker.process.kill()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


BUG = """
import asyncio, sys
from minikafka.cli import main
from minikafka.cli.processes import broker
from minikafka.server.node.registration import BrokerRegistration
register = BrokerRegistration.register

async def register_and_arm(self, store):
    await register(self, store)
    asyncio.get_running_loop().call_soon(lambda: [].pop())

BrokerRegistration.register = register_and_arm
sys.exit(main.main(["broker", *sys.argv[1:]]))
"""


def test_a_bug_in_a_callback_ends_the_broker_with_its_traceback(
    tmp_path: Path, own_zookeeper: ZookeeperProcess
) -> None:
    broker = LoneBroker(tmp_path, own_zookeeper.connect, BUG)
    assert broker.process.wait(30) == 1
    log = broker.log.read_text()
    assert "IndexError: pop from empty list" in log
    assert "in <lambda>" in log
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
