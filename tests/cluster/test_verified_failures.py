"""`minikafka verify` while brokers are killed and frozen, clocks jump, ZooKeeper is away."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster
from tests.support.cluster.verify_process import VerifyProcess
from tests.support.cluster.wall_clock import COMPILER, WallClock, compile_wall_clock

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

SESSION_S = 2
LONGER_THAN_SESSION_S = 15
TOPIC = "watched"


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)
    if trio.znode(f"/brokers/topics/{TOPIC}"):  # kept, because something was found
        # The run may have deleted it: then the znode is there until the last replica is gone.
        trio.topics("delete", "--topic", TOPIC, "--if-exists")


@pytest.fixture
def load(whole: RealCluster, tmp_path: Path) -> Iterator[VerifyProcess]:
    # The run before deleted its topic, which takes longer when a broker was down.
    until(lambda: whole.znode(f"/brokers/topics/{TOPIC}") is None, f"{TOPIC} is gone", 60)
    with VerifyProcess(whole.bootstrap, tmp_path, "--topic", TOPIC) as running:
        whole.until_whole()
        yield running


def leader(cluster: RealCluster) -> int:
    return int(cluster.state(TOPIC)["leader"])


def follower(cluster: RealCluster) -> int:
    return next(b for b in cluster.broker_ids if b not in (leader(cluster), controller(cluster)))


def controller(cluster: RealCluster) -> int:
    return int(cluster.znode("/controller")["brokerid"])


ROLES: tuple[Callable[[RealCluster], int], ...] = (leader, follower, controller)


@pytest.mark.mission("CRD-3", "PSM-9", "CFO-5")
def test_leader_follower_and_controller_are_killed(whole: RealCluster, load: VerifyProcess) -> None:
    for role in ROLES:
        victim = role(whole)
        whole.end_broker(victim, signal.SIGKILL)
        until(partial(lambda v: leader(whole) not in (v, -1), victim), "another leads", 60)
        load.until_more()
        whole.restart_broker(victim)
        whole.until_whole()
    load.until_more()
    verdict = load.finish()
    assert verdict["counts"]["in_doubt"] == 0


@pytest.mark.mission("CRD-3", "PRD-6")
def test_leader_follower_and_controller_are_frozen(whole: RealCluster, load: VerifyProcess) -> None:
    for role in ROLES:
        victim = role(whole)
        pid = whole.broker_pid(victim)
        os.kill(pid, signal.SIGSTOP)
        try:
            until(
                partial(lambda v: whole.znode(f"/brokers/ids/{v}") is None, victim),
                "session over",
                60,
            )
            load.until_more()
        finally:
            os.kill(pid, signal.SIGCONT)
        until(partial(lambda v: whole.znode(f"/brokers/ids/{v}") is not None, victim), "back", 60)
        whole.until_whole()
        assert whole.broker_pid(victim) == pid, "it was the same process all the time"
    load.until_more()
    load.finish()


def test_zookeeper_is_away_for_longer_than_sessions_last(
    whole: RealCluster, load: VerifyProcess
) -> None:
    """Produce and fetch continue, and no broker counts as dead when ZooKeeper is back."""
    marks = {b: len(whole.log(b)) for b in whole.broker_ids}
    whole.kill_zookeeper()
    away_until = time.monotonic() + SESSION_S + LONGER_THAN_SESSION_S
    while time.monotonic() < away_until:
        load.until_more()
    assert all("zookeeper_connection_lost" in whole.log(b)[mark:] for b, mark in marks.items())
    whole.restart_zookeeper()
    whole.until_whole()
    whole.create_topic("together-again")
    load.until_more()
    verdict = load.finish()
    assert verdict["counts"]["in_doubt"] == 0


@pytest.mark.mission("CSH-1", "CSH-12")
def test_brokers_stop_although_the_controller_is_frozen(
    whole: RealCluster, load: VerifyProcess
) -> None:
    frozen = controller(whole)
    leaving = next(b for b in whole.broker_ids if b != frozen)
    mark = len(whole.log(leaving))
    pid = whole.broker_pid(frozen)
    os.kill(pid, signal.SIGSTOP)
    try:
        whole.end_broker(leaving, signal.SIGTERM)  # within its 60 s
        assert (whole.data(leaving) / ".kafka_cleanshutdown").exists()
    finally:
        os.kill(pid, signal.SIGCONT)
    said = whole.log(leaving)[mark:]
    assert "stop_requested" in said
    assert "controlled_shutdown_succeeded" in said or "controlled_shutdown_failed" in said
    whole.restart_broker(leaving)
    whole.until_whole()
    load.until_more()
    load.finish()


@pytest.fixture
def clocks(
    whole: RealCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[int, WallClock]]:
    """Each broker's wall clock."""
    if not COMPILER:
        pytest.skip("no C compiler (apt-get install gcc libc6-dev)")
    library = compile_wall_clock(tmp_path)
    clocks = {b: WallClock(library, tmp_path / f"clock-{b}") for b in whole.broker_ids}
    for broker_id, clock in clocks.items():
        with monkeypatch.context() as given:
            for name, value in clock.environment().items():
                given.setenv(name, value)
            restart(whole, broker_id)
    yield clocks
    for broker_id in clocks:
        restart(whole, broker_id)


def restart(cluster: RealCluster, broker_id: int) -> None:
    cluster.end_broker(broker_id, signal.SIGTERM)
    cluster.restart_broker(broker_id)
    cluster.until_whole()


def test_clocks_jump(clocks: dict[int, WallClock], whole: RealCluster, load: VerifyProcess) -> None:
    """A leader's and the controller's: three days ahead, and then behind all others."""
    for role in (leader, controller):
        for days in (3, -1):
            victim = role(whole)
            mark = len(whole.log(victim))
            jump = timedelta(days)
            clocks[victim].set_offset(int(jump.total_seconds()))
            day = f"{datetime.now(UTC) + jump:%Y-%m-%d}"
            whole.create_topic(f"{role.__name__}-after-{days}")
            until(partial(lambda b, m, d: d in whole.log(b)[m:], victim, mark, day), "it jumps", 60)
            load.until_more()
    verdict = load.finish()
    assert verdict["counts"]["in_doubt"] == 0


def test_lost_records_are_reported(whole: RealCluster, tmp_path: Path) -> None:
    """The only replica's files are deleted under a dead broker."""
    options = ("--topic", TOPIC, "--replication-factor", "1", "--partitions", "1")
    with VerifyProcess(whole.bootstrap, tmp_path, *options) as load:
        victim = leader(whole)
        whole.end_broker(victim, signal.SIGKILL)
        shutil.rmtree(whole.data(victim) / f"{TOPIC}-0")
        whole.restart_broker(victim)
        load.until_more()
        verdict = load.verdict(1)
    assert not verdict["ok"]
    assert verdict["found"]["lost"] > 0
    found = next(row for row in verdict["findings"] if row["kind"] == "lost")
    assert "acknowledged at offset" in found["evidence"][0]
    assert found["evidence"][-1] == "  final reading: did not see it"
