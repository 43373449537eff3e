"""The verb `registry` as a process, and the example of its page of the documentation."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minikafka.cli import main
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.registry_server import RegistryServer

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-P", "-m", "minikafka", "registry", "--port", "0"]
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1) as cluster:
        yield cluster


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], RegistryServer]]:
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.fullmatch(r"registry=(http://127\.0\.0\.1:\d+)\n", line)
            assert address is not None, line
            yield process, RegistryServer(address[1])
        finally:
            process.kill()


@pytest.mark.mission("REG-1")
def test_the_example_of_the_documentation_runs_and_a_signal_ends_it(
    cluster: InsideCluster,
) -> None:
    text = (ROOT / "docs" / "how-to" / "registry.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with running("--bootstrap-server", cluster.bootstrap) as (process, registry):
        example = example.replace("http://127.0.0.1:8081", registry.url)
        example = example.replace("127.0.0.1:9092", cluster.bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", example], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert registry.send("GET", "/subjects") == (200, ["orders-value"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.mission("REG-9")
def test_a_file_of_users_and_a_topic_with_partitions_are_checked(
    cluster: InsideCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users"
    users.write_text("# people\nann:s3:cret\nbob\n")
    words = ["registry", "--bootstrap-server", cluster.bootstrap, "--users", str(users)]
    assert main.main(words) == 1
    assert "line 3 is not NAME:PASSWORD" in capsys.readouterr().err
    users.write_text("ann:s3:cret\n")
    with running(*words[1:], "--topic", "closed") as (_, registry):
        assert registry.send("GET", "/subjects")[0] == 401
    cluster.create_topic("wide", 2)
    with pytest.raises(AssertionError), running(*words[1:3], "--topic", "wide"):
        pass
