"""What `minikafka up` refuses: one clear line, exit status 1, and nothing left running."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from minikafka.world.real.files import RealFiles
from scripts.lib.cluster import free_ports
from tests.support.cluster.real_cluster import run_verb

pytestmark = pytest.mark.cluster


def refused(data_dir: Path, ports: list[int], *options: str, status: int = 1) -> str:
    """What it says; everything it started must have gone."""
    done = run_verb(
        *("up", "--brokers", str(len(ports) - 1), "--data-dir", str(data_dir)),
        *("--base-port", str(ports[0]), "--zookeeper-port", str(ports[-1]), *options),
    )
    assert done.returncode == status
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for process in psutil.process_iter(["cmdline"]):
        assert not any(str(data_dir) in word for word in process.info["cmdline"] or ())
    return str(done.stderr)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    ports = free_ports(3)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[1]))
        holder.listen()
        text = refused(tmp_path, ports)
    hint = "--base-port chooses others for the brokers"
    assert text == f"minikafka: port already in use: {ports[1]} ({hint})\n"


def test_the_port_of_zookeeper_is_taken(tmp_path: Path) -> None:
    ports = free_ports(3)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[2]))
        holder.listen()
        text = refused(tmp_path, ports)
    assert text.startswith(
        f"minikafka: port already in use: {ports[2]} (--zookeeper-port chooses another"
    )
    assert f"--zookeeper 127.0.0.1:{ports[2]} uses one that runs" in text


def test_a_port_of_a_debug_listener_that_is_taken(tmp_path: Path) -> None:
    ports = free_ports(3)
    wanted = ports[1] + DEBUG_PORT_OFFSET
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", wanted))
        holder.listen()
        text = refused(tmp_path, ports)
    assert text.startswith(f"minikafka: port already in use: {wanted} (--base-port")


def test_invalid_ports_are_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, [65535, 2181], status=2)
    assert text == "minikafka: --base-port is too high: ports up to 65635 are needed\n"


def test_a_port_that_is_needed_twice(tmp_path: Path) -> None:
    first = free_ports(1)[0]
    text = refused(tmp_path, [first, first + DEBUG_PORT_OFFSET], status=2)
    assert text == f"minikafka: port needed twice: {first + DEBUG_PORT_OFFSET}\n"


def test_a_directory_that_another_process_uses(tmp_path: Path) -> None:
    lock = RealFiles().lock(str(tmp_path / ".lock"))
    try:
        text = refused(tmp_path, free_ports(2))
    finally:
        lock.release()
    assert text == f"minikafka: {tmp_path} is in use by another minikafka\n"


def test_an_override_that_is_no_setting(tmp_path: Path) -> None:
    text = refused(tmp_path, free_ports(2), "--override", "num.partitions", status=2)
    assert text == "minikafka: --override needs KEY=VALUE, not num.partitions\n"


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        (
            "num.partitons=1",
            "Unknown configuration key num.partitons; did you mean num.partitions?",
        ),
        (
            "num.partitions=many",
            "Invalid value many for configuration num.partitions: Not a number of type INT",
        ),
        (
            "debug.listener=HTTP://0.0.0.0:9192",
            (
                "Invalid value HTTP://0.0.0.0:9192 for configuration debug.listener: "
                "must name a loopback address, such as 127.0.0.1"
            ),
        ),
    ],
)
def test_an_invalid_override_is_refused(tmp_path: Path, override: str, complaint: str) -> None:
    text = refused(tmp_path, free_ports(2), "--override", override)
    assert text == f"minikafka: {complaint}\n"


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    data = tmp_path / "broker-1" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=0\nbroker.id=99\ncluster.id=abc\n")
    text = refused(tmp_path, free_ports(2))
    assert text.startswith("minikafka: broker 1 died: exit status 1; minikafka: ")
    assert "99" in text
    assert len(text.splitlines()) == 1


def test_a_zookeeper_that_is_not_there(tmp_path: Path) -> None:
    ports = free_ports(2)
    where = f"127.0.0.1:{ports[1]}"
    text = refused(
        tmp_path,
        ports,
        *("--zookeeper", where, "--override", "zookeeper.connection.timeout.ms=1000"),
    )
    assert f"no ZooKeeper server at {where}" in text
