"""The page beside `minikafka up --inside`: what a browser may do, and what others may not."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from minikafka.testing.processes import free_ports
from tests.support.cluster.cluster_state import is_alive, until
from tests.support.page_client import PageClient

UP = [sys.executable, "-m", "minikafka.cli.main", "up", "--inside"]
GOOD: dict[str, Any] = {"arguments": {"topic": "intruder"}}


@contextmanager
def running(command: list[str], pattern: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(pattern, line)
            assert found is not None, line
            yield process, found[1]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def up() -> Iterator[tuple[subprocess.Popen[str], PageClient]]:
    command = [*UP, "--brokers", "2", "--base-port", str(free_ports(2)[0])]
    command += ["--override", "zookeeper.session.timeout.ms=4000"]
    with running(command, r"^ready bootstrap=\S+ page=(\S+)$") as (process, address):
        yield process, PageClient(address)


@pytest.fixture
def page(up: tuple[subprocess.Popen[str], PageClient]) -> PageClient:
    return up[1]


def topics(page: PageClient) -> list[str]:
    return [row["topic"] for row in page.act("topics-list")["output"]]


@pytest.mark.mission("GLASS-22")
def test_an_act_runs_its_command(page: PageClient) -> None:
    asked = {"arguments": {"topic": "made", "partitions": 2}, "preview": True}
    shown = page.post("/api/do/topics-create", asked).body
    assert list(shown) == ["command"]
    assert shown["command"].startswith("minikafka topics create --bootstrap-server 127.0.0.1:")
    assert "made" not in topics(page)
    done = page.act("topics-create", topic="made", partitions=2)
    assert (done["status"], done["command"]) == (0, shown["command"])
    assert "made" in topics(page)
    again = page.act("topics-create", topic="made")
    assert (again["status"], again["output"]) == (1, "")
    assert "already exists" in again["errors"]
    unclear = {"arguments": {"topic": "--help"}, "preview": True}
    response = page.post("/api/do/topics-create", unclear)
    assert response.status == 200  # a form that is not filled in yet is no failed request
    assert response.body["command"] == ""
    assert "topic" in response.body["problem"]


@pytest.mark.mission("GLASS-22")
def test_a_dry_run_changes_nothing(page: PageClient) -> None:
    page.act("topics-create", topic="reset", partitions=1)
    page.act("produce", topic="reset", value="x")
    asked = {"arguments": {"group": "g", "topic": "reset", "to": "latest"}, "dry_run": True}
    dry = page.post("/api/do/groups-reset-offsets", asked).body
    assert dry["status"] == 0
    assert "--dry-run" in dry["command"]
    assert "g" not in {row["group"] for row in page.act("groups-list")["output"]}
    real = {"group": "g", "offsets": "reset:0=1"}
    assert page.act("groups-reset-offsets", **real)["status"] == 0
    (described,) = page.act("groups-describe")["output"]
    (offset,) = described["offsets"]
    assert (offset["topic"], offset["currentOffset"], offset["lag"]) == ("reset", 1, 0)


@pytest.mark.mission("GLASS-22")
def test_the_proposal_of_a_reassignment_fills_its_plan(page: PageClient) -> None:
    page.act("topics-create", topic="moved", partitions=1, replication_factor=1)
    asked = {"arguments": {"topic": "moved", "brokers": [2]}, "dry_run": True}
    plan = page.post("/api/do/reassign", asked).body["fill"]["plan"]
    assert page.act("reassign", plan=plan)["status"] == 0
    until(lambda: page.act("reassign-verify", plan=plan)["status"] == 0, "the replica has moved")
    (row,) = page.act("topics-describe", topic="moved")["output"]
    assert [each["replicas"] for each in row["partitions"]] == [[2]]


@pytest.mark.mission("GLASS-22")
def test_wrong_requests_are_refused_with_a_sentence(page: PageClient) -> None:
    wrong: list[tuple[str, Any, int]] = [
        ("nothing", GOOD, 404),
        ("broker-explode", {"arguments": {"broker": 1}}, 404),
        ("broker-kill", {"arguments": {"broker": 9}}, 404),
        ("broker-kill", {"arguments": {"broker": "x"}}, 400),
        ("topics-create", {"arguments": {"topic": "--help"}}, 400),
        ("topics-create", {"arguments": []}, 400),
        ("topics-create", {"arguments": {"topic": "t"}, "dry_run": "yes"}, 400),
        ("topics-create", {**GOOD, "else": 1}, 400),
        ("topics-create", "{", 400),
        ("topics-create", "[" * 100_000, 400),
        ("topics-create", "[]", 400),
        ("topics-create", " " * 300_000, 413),
    ]
    for name, body, status in wrong:
        reply = page.post(f"/api/do/{name}", body)
        assert (reply.status, list(reply.body)) == (status, ["error"]), (name, body, reply)
    as_a_form = page.post("/api/do/topics-create", GOOD, Content_Type="text/plain")
    assert as_a_form.status == 415
    assert "intruder" not in topics(page)


@pytest.mark.mission("GLASS-23")
@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": ""},
        {"Cookie": "minikafka_token_{port}=0123456789abcdef0123456789abcdef"},
        {"Cookie": "", "X-Minikafka-Token": "wrong"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"},
    ],
)
def test_others_may_not_act(page: PageClient, headers: dict[str, str]) -> None:
    headers = {
        name: text.format(port=page.netloc.rpartition(":")[2]) for name, text in headers.items()
    }
    for path in ("/api/do/topics-create", "/api/do/broker-kill"):
        reply = page.post(path, {"arguments": {"topic": "intruder", "broker": 1}}, **headers)
        assert reply.status == 403
    assert page.request("GET", "/api/do/topics-create").status == 405
    assert "intruder" not in topics(page)
    assert page.act("broker-start", broker=1)["errors"] == "broker 1 is running"


@pytest.mark.mission("GLASS-23")
def test_a_read_only_page_does_nothing(page: PageClient) -> None:
    bootstrap = page.get("/api/snapshot")[0]["bootstrap"]
    command = [sys.executable, "-m", "minikafka.cli.main", "ui", "--bootstrap-server", bootstrap]
    with running([*command, "--port", "0", "--read-only"], r"page=(\S+)") as (_, address):
        reading = PageClient(address)
        assert reading.get("/api/acts") == []
        assert reading.post("/api/do/topics-create", GOOD).status == 403
        assert reading.post("/api/do/topics-create", {**GOOD, "preview": True}).status == 403
        assert reading.get("/api/snapshot")[0]["read_only"]
    assert "intruder" not in topics(page)


@pytest.mark.mission("GLASS-24")
def test_brokers_inside_are_ended_paused_and_isolated(page: PageClient) -> None:
    def online() -> dict[str, bool]:
        found: dict[str, bool] = {}
        for message in page.get("/api/snapshot"):
            for each in message.get("changed", []):
                if each["kind"] == "node":
                    found[each["name"]] = each["facts"]["online"]
        return found

    hello = page.get("/api/snapshot")[0]
    assert hello["brokers_supervised"] == [1, 2]
    assert {"stop", "kill", "start", "pause", "resume", "isolate"} <= set(hello["supervised"])
    for end in ("broker-kill", "broker-stop"):
        assert page.act(end, broker=2)["status"] == 0
        until(lambda: online() == {"1": True, "2": False}, "broker 2 is gone", 30)
        assert page.act(end, broker=2)["errors"] == "broker 2 does not run"
        assert page.act("broker-start", broker=2)["status"] == 0
        until(lambda: online() == {"1": True, "2": True}, "broker 2 is back", 30)
    for away, back in (("broker-pause", "broker-resume"), ("broker-isolate", "broker-rejoin")):
        assert page.act(away, broker=2)["status"] == 0
        until(lambda: online().get("2") is False, "broker 2 has no session", 30)
        assert page.act(back, broker=2)["status"] == 0
        until(lambda: online().get("2") is True, "broker 2 is registered again", 30)


@pytest.mark.mission("GLASS-25")
def test_a_page_does_not_outlive_its_supervisor() -> None:
    command = [*UP, "--brokers", "1", "--base-port", str(free_ports(1)[0])]
    with running(command, r" page=(\S+)$") as (process, _):
        pids = [child.pid for child in psutil.Process(process.pid).children()]
        assert pids != []
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: not any(is_alive(pid) for pid in pids), "the page has ended")


@pytest.mark.mission("GLASS-25")
def test_a_page_ends_by_sigterm_and_its_cluster_goes_on() -> None:
    command = [*UP, "--brokers", "1", "--base-port", str(free_ports(1)[0])]
    with running(command, r" page=(\S+)$") as (process, _):
        pids = [child.pid for child in psutil.Process(process.pid).children()]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        until(lambda: not any(is_alive(pid) for pid in pids), "the page has ended")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.mission("GLASS-118")
def test_a_page_beside_a_registry_knows_it() -> None:
    command = [*UP, "--brokers", "1", "--base-port", str(free_ports(1)[0]), "--registry", "0"]
    with running(command, r" (registry=\S+ page=\S+)$") as (process, words):
        registry, page = (word.partition("=")[2] for word in words.split())
        assert PageClient(page).get("/api/decodings")["registry"] == registry
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.mission("GLASS-25")
def test_a_page_without_a_port_is_no_reason_to_fail() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [*UP, "--brokers", "1", "--base-port", str(free_ports(1)[0])]
        with running([*command, "--page-port", port], r"^ready (bootstrap=\S+)$") as (process, _):
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
