"""The server that forks to be Spark's Python workers: what they are given, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from minikafka.spark.fork_server import VARIABLE, receive
from minikafka.spark.worker_python import worker_python

pytestmark = pytest.mark.mission("SPS-4")

MODULE = """
import os, sys, pathlib
print(sys.argv[1:], os.environ["MINE"], os.getcwd(), "pyspark.worker" in sys.modules)
print(sys.stdin.read(), file=sys.stderr)
import numpy
print(numpy.random.random())
sys.exit(7)
"""
SLEEPER = "import os, sys, signal; print(os.getpid(), flush=True); signal.pause()"


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # the test's own limit ends it
        time.sleep(0.01)


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of a process that has a server: the script of Spark's workers finds it."""
    (tmp_path / "what_runs.py").write_text(MODULE)
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    code = (
        "import os, sys; from minikafka.spark.fork_server import *; start_fork_server(os.environ);"
        "print(os.environ[VARIABLE], flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )
    assert owner.stdout is not None
    socket = owner.stdout.readline().strip()
    wait_until(lambda: os.path.exists(socket))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    yield {**os.environ, VARIABLE: socket, "PYTHONHASHSEED": "0", "MINE": "x", "PYTHONPATH": path}
    owner.communicate()
    wait_until(lambda: not os.path.exists(socket))


@pytest.fixture
def short_folder() -> Iterator[str]:
    """A folder for sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def run(environ: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = worker_python({}, folder / "cache")
    return subprocess.run(
        [script, *arguments], env=environ, cwd=folder, input="given", capture_output=True, text=True
    )


def test_a_module_runs_as_in_a_new_python(environ: dict[str, str], tmp_path: Path) -> None:
    numbers = []
    for _ in range(2):
        done = run(environ, tmp_path, "-m", "what_runs", "a", "b c")
        first, number = done.stdout.splitlines()
        assert first == f"['a', 'b c'] x {tmp_path} True"
        assert done.stderr == "given\n"
        assert done.returncode == 7
        numbers.append(number)
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("without", [VARIABLE, "PYTHONHASHSEED"])
def test_without_a_server_a_python_is_started(
    environ: dict[str, str], tmp_path: Path, without: str
) -> None:
    """Nor does the server serve workers whose hashes of texts would differ from its own."""
    given = {name: value for name, value in environ.items() if name != without}
    done = run(given, tmp_path, "-m", "what_runs")
    assert done.stdout.startswith(f"[] x {tmp_path} False")
    assert done.returncode == 7


def test_a_socket_without_a_server_is_no_hindrance(environ: dict[str, str], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(tmp_path / "nobody"))
        done = run({**environ, VARIABLE: str(tmp_path / "nobody")}, tmp_path, "-m", "what_runs")
    assert done.returncode == 7


def test_a_worker_ends_with_the_process_that_the_jvm_knows(
    environ: dict[str, str], tmp_path: Path
) -> None:
    script = worker_python({}, tmp_path / "cache")
    known = subprocess.Popen(
        [script, "-m", "sleeper"], env=environ, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert known.stdout is not None
    worker = int(known.stdout.readline())
    assert worker != known.pid
    known.send_signal(signal.SIGKILL)
    known.wait()
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
    known.stdout.close()


def test_a_worker_whose_socket_spark_closes_prints_nothing(
    environ: dict[str, str], tmp_path: Path, short_folder: str
) -> None:
    """As at ``take(5)``. PySpark's own daemon prints a traceback then."""
    given = {**environ, "PYTHON_UNIX_DOMAIN_ENABLED": "true", "SPARK_REUSE_WORKER": "1"}
    given["PYTHON_WORKER_FACTORY_SOCK_DIR"] = short_folder
    given["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"  # Spark's default
    script = worker_python({}, tmp_path / "cache")
    daemon = subprocess.Popen(
        [script, "-m", "pyspark.daemon", "pyspark.worker"], env=given, cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert daemon.stdout is not None
    path = daemon.stdout.read(int.from_bytes(daemon.stdout.read(4), "big"))
    with socket.socket(socket.AF_UNIX) as jvm:
        jvm.connect(path)
        worker = int.from_bytes(jvm.recv(4), "big")
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
    assert daemon.communicate() == (b"", b"")


@pytest.mark.parametrize(("error", "printed"), [("BrokenPipeError", False), ("KeyError", True)])
def test_a_process_that_cannot_write_to_spark_ends_without_a_trace(
    environ: dict[str, str], tmp_path: Path, error: str, printed: bool
) -> None:
    """As the process of a source whose query is stopped. Other errors are printed."""
    (tmp_path / "fails.py").write_text(f"raise {error}")
    done = run(environ, tmp_path, "-m", "fails")
    assert done.returncode == 1
    assert (error in done.stderr) == printed


def test_a_client_that_ends_amid_its_request_leaves_no_descriptors() -> None:
    client, server = socket.socketpair()
    with server:
        socket.send_fds(client, [(100).to_bytes(4, "big")], [0, 1, 2])
        client.sendall(b"[")
        client.close()
        descriptors = os.listdir("/proc/self/fd")
        with pytest.raises(ValueError, match="Expecting value"):
            receive(server)
        assert os.listdir("/proc/self/fd") == descriptors
