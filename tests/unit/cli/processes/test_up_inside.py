"""The verb `up --inside`: a cluster without Java and ZooKeeper, in one process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

from minikafka.cli.main import main
from minikafka.cli.processes.embedded_zookeeper import ZookeeperError
from minikafka.testing.processes import free_ports


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [
        sys.executable,
        "-m",
        "minikafka.cli.main",
        "up",
        "--inside",
        "--no-page",
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready, _, bootstrap = process.stdout.readline().strip().partition(" bootstrap=")
            assert ready == "ready"
            yield process, bootstrap
        finally:
            process.kill()


@pytest.mark.mission("IN-86")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_clients_use_it_until_a_signal_ends_it(number: signal.Signals) -> None:
    first = free_ports(2)[0]
    with running("--brokers", "2", "--base-port", str(first)) as (process, bootstrap):
        assert bootstrap == f"127.0.0.1:{first},127.0.0.1:{first + 1}"
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        offsets = []
        producer.produce("t", b"value", on_delivery=lambda _, record: offsets.append(record))
        assert producer.flush(10) == 0
        assert [record.error() for record in offsets] == [None]
        process.send_signal(number)
        assert process.wait(10) == 0


def broker_facts(bootstrap: str, broker: int) -> Any:
    """What ``minikafka debug metrics`` shows of a broker."""
    command = [sys.executable, "-m", "minikafka.cli.main", "debug", "metrics", "--json"]
    command += ["--bootstrap-server", bootstrap, "--broker", str(broker)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.mission("IN-91")
def test_each_broker_has_a_debug_listener_as_in_up() -> None:
    first = free_ports(2)[0]
    with running("--brokers", "2", "--base-port", str(first)) as (_, bootstrap):
        assert [broker_facts(bootstrap, number)["broker"] for number in (1, 2)] == [1, 2]
        for number in (1, 2):
            url = f"http://127.0.0.1:{first + number + 99}/state.json"
            with urllib.request.urlopen(url) as response:
                assert json.load(response)["broker"] == number


@pytest.mark.mission("IN-91")
def test_a_taken_port_of_a_debug_listener_is_replaced() -> None:
    first = free_ports(2)[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 100))
        with running("--brokers", "2", "--base-port", str(first)) as (_, bootstrap):
            assert [broker_facts(bootstrap, number)["broker"] for number in (1, 2)] == [1, 2]


@pytest.mark.mission("IN-91")
def test_no_debug_listener() -> None:
    first = free_ports(1)[0]
    arguments = ["--brokers", "1", "--base-port", str(first), "--override", "debug.listener="]
    with running(*arguments), pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{first + 100}/state.json")


@pytest.mark.mission("IN-86")
@pytest.mark.parametrize(
    "option",
    [
        ["--secure"],
        ["--zookeeper", "localhost:2181"],
        ["--zookeeper-port", "1"],
        ["--zookeeper-heap", "64"],
        ["--data-dir", "x"],
    ],
)
def test_options_without_effect_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--inside", *option]) == 2
    assert f"{option[0]}: not with --inside" in capsys.readouterr().err


@pytest.mark.mission("IN-86")
def test_up_names_it_where_there_is_no_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_java(environ: object) -> str:
        raise ZookeeperError("no Java")

    monkeypatch.setattr("minikafka.cli.processes.up.find_java", no_java)
    assert main(["up"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "minikafka: no Java; or run a cluster without it: minikafka up --inside"
    ]
