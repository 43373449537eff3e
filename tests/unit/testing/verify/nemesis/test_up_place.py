"""Faults of processes: signals to what stands in for brokers, in folders as those of `up`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError
from minikafka.testing import broker_folders
from minikafka.testing.broker_folders import runs_broker
from minikafka.testing.verify.nemesis import up
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind, PlannedFault
from minikafka.testing.verify.nemesis.up import (
    BALLOON,
    Balloons,
    UpPlace,
    children,
    listens_at,
    log_directories,
    own_mounts,
)
from minikafka.world.real.world import real_world
from tests.support.cluster.cluster_state import until

pytestmark = pytest.mark.mission("JUDGE-85")

NODES = {number: Node(number, "127.0.0.1", 9091 + number, None) for number in (1, 2)}
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two sleeping processes in the place of brokers, one with a child in that of ZooKeeper."""
    monkeypatch.setattr(broker_folders, "own_command", lambda *_: SLEEP)
    started: list[subprocess.Popen[bytes]] = []
    for number in NODES:
        folder = tmp_path / f"broker-{number}"
        (folder / "data").mkdir(parents=True)
        properties = folder / "server.properties"
        properties.write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{9091 + number}\nlog.dirs={folder}/data\n"
        )
        started.append(subprocess.Popen([*SLEEP, str(properties)]))
        (folder / "pid").write_text(f"{started[-1].pid}\n")
    until(lambda: all(runs_broker(process.pid) for process in started), "both run")
    (tmp_path / "zookeeper").mkdir()
    started.append(subprocess.Popen(["sh", "-c", "sleep 600 & wait"]))
    (tmp_path / "zookeeper" / "pid").write_text(f"{started[-1].pid}\n")
    until(lambda: children(str(started[-1].pid)), "it has a child")
    yield tmp_path
    left = [int(path.read_text()) for path in tmp_path.glob("broker-*/pid")]
    for pid in {*left, *children(str(started[-1].pid)), *(each.pid for each in started)}:
        os.kill(pid, 9) if Path(f"/proc/{pid}").exists() else None
    for process in started:
        process.wait()


async def place_of(home: Path) -> UpPlace:
    place = UpPlace(real_world().clock, home)
    await place.check(NODES)
    return place


def pid_of(home: Path, broker: int) -> int:
    return int((home / f"broker-{broker}" / "pid").read_text())


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def fault(kind: FaultKind, *victims: int, choice: int = 0) -> PlannedFault:
    return PlannedFault(1, kind, victims, 0, 0, choice)


async def test_a_broker_is_stopped_and_goes_on(home: Path) -> None:
    place = await place_of(home)
    await place.begin(fault(FaultKind.STOP, 2))
    pid = pid_of(home, 2)
    until(lambda: is_stopped(pid), "it is stopped")
    await place.end(fault(FaultKind.STOP, 2))
    until(lambda: not is_stopped(pid), "it goes on")
    assert pid_of(home, 2) == pid


@pytest.mark.parametrize("kind", [FaultKind.KILL9, FaultKind.TERM])
async def test_a_broker_ends_and_another_process_follows(home: Path, kind: FaultKind) -> None:
    place = await place_of(home)
    first = pid_of(home, 1)
    await place.begin(fault(kind, 1))
    assert not runs_broker(first)
    await place.end(fault(kind, 1))
    second = pid_of(home, 1)
    assert second != first
    await place.end(fault(kind, 1))
    await place.end(fault(kind, 2))
    assert pid_of(home, 1) == second, "an end without a beginning starts nothing"


async def test_all_brokers_end_before_any_is_started(home: Path) -> None:
    place = await place_of(home)
    before = [pid_of(home, broker) for broker in NODES]
    await place.begin(fault(FaultKind.RESTART_ALL, 1, 2))
    assert not any(map(runs_broker, before))
    await place.end(fault(FaultKind.RESTART_ALL, 1, 2))
    after = [pid_of(home, broker) for broker in NODES]
    until(lambda: all(map(runs_broker, after)), "both run")


async def test_the_server_below_zookeeper_is_stopped(home: Path) -> None:
    place = await place_of(home)
    (java,) = children((home / "zookeeper" / "pid").read_text())
    await place.begin(fault(FaultKind.ZOOKEEPER, ZOOKEEPER))
    until(lambda: is_stopped(java), "it is stopped")
    await place.end(fault(FaultKind.ZOOKEEPER, ZOOKEEPER))
    until(lambda: not is_stopped(java), "it goes on")
    await place.end(fault(FaultKind.ZOOKEEPER, ZOOKEEPER))


@pytest.mark.mission("JUDGE-82")
async def test_what_processes_of_one_machine_cannot_do(home: Path) -> None:
    place = await place_of(home)
    for kind in (FaultKind.CUT, FaultKind.ONEWAY, FaultKind.CLOCK, FaultKind.SLOW_DISK):
        assert "one" in place.refusal(kind)
    assert "mount of its own" in place.refusal(FaultKind.FULL_DISK)
    assert place.refusal(FaultKind.RESTART_ALL) == ""


async def test_a_supervisor_without_zookeeper_would_end(home: Path) -> None:
    (home / "zookeeper").rename(home / "elsewhere")
    place = await place_of(home)
    for kind in (FaultKind.KILL9, FaultKind.TERM, FaultKind.RESTART_ALL):
        assert "ends when all its own brokers" in place.refusal(kind)
    assert "not in its data directory" in place.refusal(FaultKind.ZOOKEEPER)
    assert place.refusal(FaultKind.STOP) == ""
    (home / "elsewhere").rename(home / "zookeeper")


async def test_disks_that_are_mounts_can_be_filled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "own_mounts", lambda dirs: [d for d in dirs if "broker-2" in str(d)])
    monkeypatch.setattr(up, "inflate", lambda path: path.write_text("all"))
    place = await place_of(home)
    assert place.victims(FaultKind.FULL_DISK) == [2]
    await place.begin(fault(FaultKind.FULL_DISK, 2))
    assert (home / "broker-2" / "data" / BALLOON).exists()
    await place.end(fault(FaultKind.FULL_DISK, 2))
    await place.end(fault(FaultKind.FULL_DISK, 2))
    assert not (home / "broker-2" / "data" / BALLOON).exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "minikafka-test", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def test_a_disk_is_full_until_the_balloon_is_gone(small_disk: Path) -> None:
    balloons = Balloons(dict.fromkeys([1], own_mounts([small_disk, small_disk.parent])))
    await balloons.fill(1)
    assert (small_disk / BALLOON).exists()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "more").write_bytes(bytes(8192))
    await balloons.remove(1)
    (small_disk / "more").write_bytes(bytes(8192))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({1: NODES[1], 3: NODES[2]}, r"broker 2 of .* is not in the cluster"),
        ({1: NODES[1], 2: NODES[1]}, r"broker 2 of .* is not in the cluster"),
        ({**NODES, 3: Node(3, "127.0.0.1", 9094, None)}, "has more brokers than"),
    ],
)
async def test_another_cluster_is_left_alone(
    home: Path, nodes: dict[int, Node], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        await UpPlace(real_world().clock, home).check(nodes)


async def test_folders_without_processes(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster of minikafka up"):
        await UpPlace(real_world().clock, tmp_path / "nowhere").check(NODES)
    # A file that is older than the process which has its number now.
    (home / "broker-1" / "pid").rename(home / "kept")
    (home / "broker-1" / "pid").write_text(f"{os.getpid()}\n")
    with pytest.raises(ConfigError, match=r"broker 1 of .* does not run"):
        await place_of(home)
    (home / "kept").rename(home / "broker-1" / "pid")


def test_properties() -> None:
    assert log_directories({"log.dirs": "/a, /b", "log.dir": "/c"}) == [Path("/a"), Path("/b")]
    assert log_directories({"log.dir": "/c"}) == [Path("/c")]
    assert log_directories({}) == []
    given = {"listeners": "A://:1909,B://h:9092", "advertised.listeners": "A://x:30"}
    assert [listens_at(given, port) for port in (1909, 9092, 30, 909, 3)] == [
        *(True, True, True, False, False)
    ]
