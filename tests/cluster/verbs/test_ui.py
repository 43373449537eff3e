"""The verb `ui` as a process, over a cluster inside this one."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minikafka.cli import main
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.asgi_server import bind
from tests.support.page_server import HOST, PageServer

pytestmark = pytest.mark.cluster
COMMAND = [sys.executable, "-P", "-m", "minikafka", "ui"]
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1) as cluster:
        yield cluster


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], PageServer]]:
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.fullmatch(r"page=http://127\.0\.0\.1:(\d+)/\?token=(\w+)\n", line)
            assert address is not None, line
            yield process, PageServer(int(address[1]), address[2])
        finally:
            process.kill()


@pytest.mark.mission("GLASS-17")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_spite_of_open_streams(
    cluster: InsideCluster, number: signal.Signals
) -> None:
    words = ("--bootstrap-server", cluster.bootstrap, "--port", "0")
    with running(*words) as (process, page), page.stream() as events:
        assert next(events)[1]["type"] == "hello"
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_next_port_is_taken_unless_one_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        bound = bind(HOST, port, exact=False)
        assert bound.getsockname()[1] > port
        bound.close()
        words = ["ui", "--bootstrap-server", f"{HOST}:1", "--port", str(port)]
        assert main.main(words) == main.FAILED
    assert f"port {port} is in use" in capsys.readouterr().err


def test_a_missing_recording_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ui", "--recording", "/no/such/file"]) == main.FAILED
    assert "--recording /no/such/file: no such file" in capsys.readouterr().err
