"""`minikafka up --registry`: the schema registry beside the brokers, which ends with them."""

from __future__ import annotations

import base64
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.cli import main
from minikafka.kernel.config import parse_properties
from scripts.lib.cluster import Cluster, free_ports
from tests.support.registry_server import RegistryServer

pytestmark = [pytest.mark.cluster, pytest.mark.mission("SPO-2")]
COMMAND = [sys.executable, "-P", "-m", "minikafka", "up", "--no-page", "--brokers", "1"]
TIMEOUT_S = 60
HINT = "--registry PORT chooses another for the registry"


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], RegistryServer]]:
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.fullmatch(r"ready .* registry=(http://127\.0\.0\.1:\d+)\n", line)
            assert address is not None, line
            yield process, RegistryServer(address[1])
        finally:
            process.kill()


def places(directory: Path) -> list[str]:
    ports = free_ports(2)
    words = ["--data-dir", str(directory), "--base-port", str(ports[0])]
    return [*words, "--zookeeper-port", str(ports[1])]


def is_served(registry: RegistryServer) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(registry.url.rpartition(":")[2]))) == 0


def test_a_registry_inside_ends_with_the_brokers() -> None:
    first = free_ports(2)
    words = ("--inside", "--base-port", str(first[0]), "--registry", str(first[1]))
    with running(*words) as (process, registry):
        assert registry.url.endswith(f":{first[1]}")
        assert registry.send("GET", "/subjects") == (200, [])
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert not is_served(registry)


def test_a_registry_ends_with_brokers_that_are_killed() -> None:
    words = ("--inside", "--base-port", str(free_ports(1)[0]), "--registry", "0")
    with running(*words) as (process, registry):
        children = psutil.Process(process.pid).children()
        assert is_served(registry)
        process.kill()
        _, alive = psutil.wait_procs(children, TIMEOUT_S)
        assert alive == []
        assert not is_served(registry)


def test_schemas_outlive_a_restart(tmp_path: Path) -> None:
    words = (*places(tmp_path), "--registry", "0")
    schema = {"schema": '"string"'}
    with running(*words) as (process, registry):
        assert registry.send("POST", "/subjects/s/versions", schema)[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        assert not is_served(registry)
    assert not (tmp_path / "registry" / "pid").exists()
    with running(*words) as (process, registry):
        assert registry.send("GET", "/subjects") == (200, ["s"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_users_of_a_secured_cluster_log_in(tmp_path: Path) -> None:
    with running(*places(tmp_path), "--secure", "--registry", "0") as (process, registry):
        assert registry.send("GET", "/subjects")[0] == 401
        passwords = parse_properties((tmp_path / "security" / "users.properties").read_text())
        login = base64.b64encode(f"app:{passwords['app']}".encode()).decode()
        sent = registry.send("GET", "/subjects", Authorization=f"Basic {login}")
        assert sent == (200, [])
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("inside", [True, False])
def test_a_taken_port_is_named(
    inside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        number = holder.getsockname()[1]
        words = [*places(data)[2:4], "--inside"] if inside else places(data)
        assert main.main(["up", "--brokers", "1", *words, "--registry", str(number)]) == 1
    assert capsys.readouterr().err == f"minikafka: port already in use: {number} ({HINT})\n"
    assert not data.exists()


def test_a_registry_that_cannot_start_stops_the_cluster(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1) as cluster:
        topic = NewTopic("_schemas", 2, 1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic], operation_timeout=TIMEOUT_S)["_schemas"].result(TIMEOUT_S)
    words = [*COMMAND, *places(tmp_path), "--registry", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "minikafka: registry died: exit status 1; minikafka: _schemas must have one partition, "
        f"not 2 (log: {tmp_path / 'registry' / 'log'})\n"
    )
