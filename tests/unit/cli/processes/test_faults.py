"""The verb `faults`: a proxy with rules from a file and over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import confluent_kafka
import kafka
import pytest

from minikafka.testing.inside.cluster import InsideCluster

COMMAND = [sys.executable, "-m", "minikafka.cli.main", "faults"]


class Faults:
    """`minikafka faults` as a child process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        facts = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
        self.bootstrap, self.control = facts["bootstrap"], facts["control"]
        self.brokers = [process.stdout.readline().strip() for _ in range(2)]

    def request(self, method: str, path: str, value: Any = None) -> Any:
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.control + path, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.load(response)
        except HTTPError as error:
            return error.code, json.load(error)["error"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(brokers=2) as running:
        running.create_topic("t", partitions=2)
        yield running


@contextmanager
def running(cluster: InsideCluster, *options: str) -> Iterator[Faults]:
    first = cluster.bootstrap.split(",")[0]
    command = [*COMMAND, "--upstream", first, "--control", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Faults(process)
        finally:
            process.kill()


@pytest.mark.mission("IN-104")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_rules_of_a_file_and_over_http_reach_two_client_libraries(
    cluster: InsideCluster, tmp_path: Path, end: signal.Signals
) -> None:
    rules = tmp_path / "rules.json"
    rule = {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "produce", "topic": "t"}
    rules.write_text(json.dumps([rule, {"fault": "observe", "api": "Metadata"}]))
    with (
        free_port() as port,
        running(cluster, "--rules", str(rules), "--listen", f"localhost:{port}") as faults,
    ):
        assert f"localhost:{port}" in faults.bootstrap.split(",")
        addresses = cluster.bootstrap.split(",")
        assert [line.split(" for ")[1] for line in faults.brokers] == addresses
        one = confluent_kafka.Producer({"bootstrap.servers": faults.bootstrap, "client.id": "one"})
        one.produce("t", b"1", partition=0)
        assert one.flush(20) == 0
        shown = faults.request("GET", "/faults")
        assert [each["id"] for each in shown] == [1, 2]
        assert shown[0]["hits"] == 1
        assert shown[1]["hits"] >= 1
        added = faults.request("POST", "/faults", rule | {"partition": 1})
        other = kafka.KafkaProducer(
            bootstrap_servers=faults.bootstrap, client_id="other", retries=5
        )
        other.send("t", b"2", partition=1).get(20)
        other.close()
        assert faults.request("DELETE", f"/faults/{added['id']}")["hits"] == 1
        for client in ("one", "other"):
            seen = faults.request("GET", f"/requests?api=Produce&client_id={client}")
            assert [each["api"] for each in seen] == ["Produce"] * 2
        hold = faults.request("POST", "/faults", {"fault": "hold", "api": "Produce"})
        one.produce("t", b"3", partition=0)
        while faults.request("GET", f"/faults/{hold['id']}")["hits"] == 0:
            one.poll(0.01)
        faults.process.send_signal(end)  # nothing waits for what is held
        assert faults.process.wait(20) == 0


@pytest.mark.mission("IN-104")
def test_a_misspelled_rule_and_other_paths_are_refused_over_http(cluster: InsideCluster) -> None:
    with running(cluster) as faults:
        wanted = {"fault": "swallow", "topics": "t"}
        status, text = faults.request("POST", "/faults", wanted)
        assert (status, text.startswith("no field 'topics'; did you mean")) == (400, True)
        assert faults.request("POST", "/topics", {"name": "t"})[0] == 404
        assert "POST /topics" not in faults.request("GET", "/")


@pytest.mark.mission("IN-104")
@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("[", "no JSON: "),
        ("{}", "no JSON list of faults"),
        ("[1]", "fault 1 is no JSON object"),
        ('[{"fault": "observe"}, {"fault": "anser"}]', "fault 2: no fault 'anser'; did you mean"),
        ('[{"fault": "swallow", "api": "produse"}]', "fault 1: no API 'produse'; did you mean"),
        ('[{"fault": "swallow", "times": 0}]', "fault 1: times is 0"),
    ],
)
def test_bad_rules_end_the_command_in_one_line(tmp_path: Path, rules: str, error: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(rules)
    status, line = failed("--upstream", "127.0.0.1:1", "--rules", str(path))
    assert (status, line.startswith(f"minikafka: {path}: {error}")) == (1, True), line


@pytest.mark.mission("IN-104")
def test_bad_addresses_end_the_command_in_one_line(cluster: InsideCluster, tmp_path: Path) -> None:
    first = cluster.bootstrap.split(",")[0]
    with free_port() as unused:
        pass
    expected = {
        ("--upstream", "kafka"): "--upstream: kafka is not HOST:PORT",
        ("--upstream", first, "--listen", "127.0.0.1:x"): "--listen: 127.0.0.1:x is not HOST:PORT",
        ("--upstream", f"127.0.0.1:{unused}"): f"cannot connect to 127.0.0.1:{unused}: ",
        ("--upstream", first, "--listen", first): f"cannot listen on {first}: Address already in",
        ("--upstream", first, "--control", first.split(":")[1]): f"cannot listen on {first}: ",
        (
            "--upstream",
            first,
            "--rules",
            f"{tmp_path}/none",
        ): "No such file or directory: ",
    }
    for options, error in expected.items():
        status, line = failed(*options)
        wrong = 2 if "HOST:PORT" in error else 1
        assert (status, line.startswith(f"minikafka: {error}")) == (wrong, True), line


@pytest.mark.mission("IN-104")
def test_an_upstream_that_is_no_kafka_ends_the_command_in_one_line() -> None:
    """It closes the connection after the first request, as a listener with TLS does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        threading.Thread(target=lambda: listening.accept()[0].close(), daemon=True).start()
        status, line = failed("--upstream", f"127.0.0.1:{port}")
    assert line.startswith(f"minikafka: no Kafka without TLS responds at 127.0.0.1:{port}: ")
    assert status == 1


def failed(*options: str) -> tuple[int, str]:
    """Return the exit status, and the only line of standard error."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60)
    (line,) = done.stderr.splitlines()
    return done.returncode, line


@contextmanager
def free_port() -> Iterator[int]:
    """A port that is free, unless another process takes it."""
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    yield port
