"""A Ctrl-C in a run of the tests: no broker, no ZooKeeper and no worker survives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]

ONE_TEST = """
import os, signal, time
from pathlib import Path
import psutil
from tests.support.cluster.real_cluster import RealCluster
from tests.support.zookeeper.process import running_zookeeper

def test_it(tmp_path: Path) -> None:
    with running_zookeeper() as server, RealCluster(tmp_path / "cluster", brokers=1) as cluster:
        cluster.end_broker(1, 9)
        cluster.restart_broker(1)
        pids = [server.pid, cluster.broker_pid(1), cluster.up.pid, os.getpid()]
        pids += [each.pid for each in psutil.Process(cluster.up.pid).children(recursive=True)]
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as one that waits for a JVM
        Path(os.environ["PIDS"]).write_text(" ".join(map(str, pids)) + chr(10))
        time.sleep(600)
"""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a subreaper"),
]


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    """The worker does not listen, so that pytest-xdist ends it, and nobody stops its broker."""
    test = tmp_path / "test_it.py"
    test.write_text(ONE_TEST)
    told = tmp_path / "pids"
    os.mkfifo(told)
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1"]
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "scripts.lib.reaper", *pytest_command),
            *("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), str(test)),
        ],
        cwd=ROOT,
        env=os.environ | {"PIDS": str(told), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=(tmp_path / "out").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        pids = [int(word) for word in told.read_text().split()]
        assert len(pids) >= 4
        assert all(psutil.pid_exists(pid) for pid in pids)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        run.wait(120)
        assert not [pid for pid in pids if psutil.pid_exists(pid)], (tmp_path / "out").read_text()
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait()
