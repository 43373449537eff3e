"""The page of a real `minikafka up`: brokers are killed, stopped and paused by its acts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from minikafka.testing.processes import ClusterProcesses
from tests.support.cluster.cluster_state import until
from tests.support.page_client import PageClient

pytestmark = pytest.mark.mission("GLASS-24")


def nodes(page: PageClient) -> dict[str, Any]:
    return {
        each["name"]: each["facts"]["online"]
        for message in page.get("/api/snapshot")
        for each in message.get("changed", [])
        if each["kind"] == "node"
    }


def pid(cluster: ClusterProcesses, broker: int) -> int:
    return int((cluster.home / f"broker-{broker}" / "pid").read_text())


def has_ended(cluster: ClusterProcesses, broker: int) -> bool:
    return not (cluster.home / f"broker-{broker}" / "pid").exists()


def test_brokers_end_and_start_by_acts(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=3, page=True) as cluster:
        assert cluster.page is not None
        page = PageClient(cluster.page)
        assert page.act("topics-create", topic="t", replication_factor=3)["status"] == 0
        until(lambda: list(nodes(page).values()) == [True] * 3, "the page knows all brokers")
        ends = (("broker-kill", "killed", 1), ("broker-stop", "stopped", 2))
        for act, what, broker in ends:
            killed = page.act(act, broker=broker)
            number = {"killed": 9, "stopped": 15}[what]
            assert killed["command"] == f"kill -{number} $(cat {cluster.home}/broker-{broker}/pid)"
            assert killed["status"] == 0
            until(lambda: has_ended(cluster, broker), f"broker {broker} has ended")  # noqa: B023
            others = {str(other): other != broker for other in (1, 2, 3)}
            until(lambda: nodes(page) == others, "the page shows it")  # noqa: B023
            assert (
                f"minikafka: broker {broker}: {what} from the page"
                in (tmp_path / "stderr").read_text()
            )
            assert page.act("broker-start", broker=broker)["status"] == 0
            until(lambda: list(nodes(page).values()) == [True] * 3, "all brokers are back")
            refused = page.act("broker-start", broker=broker)
            assert refused["errors"] == f"broker {broker} runs"
        assert page.act("broker-pause", broker=3)["status"] == 0
        third = psutil.Process(pid(cluster, 3))
        until(lambda: third.status() == psutil.STATUS_STOPPED, "broker 3 is paused")
        assert "paused" in page.act("broker-stop", broker=3)["errors"]
        assert page.act("broker-resume", broker=3)["status"] == 0
        until(lambda: third.status() != psutil.STATUS_STOPPED, "broker 3 goes on")
        # `up` ends although a broker is paused, and although another was killed by an act.
        page.act("broker-kill", broker=1)
        page.act("broker-pause", broker=3)
        up: subprocess.Popen[str] | None = cluster._up
        assert up is not None
        up.terminate()
        assert up.wait(60) == 0


def test_a_secured_cluster_has_a_page_with_the_login_of_the_administrator(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=1, secure=True, page=True) as cluster:
        assert cluster.page is not None
        page = PageClient(cluster.page)
        created = page.act("topics-create", topic="t")
        assert created["status"] == 0
        assert f"--command-config {cluster.home}/security/clients/admin/" in created["command"]
        assert page.request("GET", "/api/snapshot").status == 403  # others have no login
        assert cluster._up is not None
        (process,) = (
            each for each in psutil.Process(cluster._up.pid).children() if "ui" in each.cmdline()
        )
        process.kill()
        notice = f"minikafka: the page has ended (log: {cluster.home}/page/log)"
        until(lambda: notice in (tmp_path / "stderr").read_text(), "a line says so")
