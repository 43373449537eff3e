"""Clusters as processes: a Ctrl-C while one starts stops what has been started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from minikafka.testing.processes import ClusterProcesses
from scripts.lib.cluster import Cluster


class Starting:
    """``minikafka up`` that is interrupted before it says that it is ready."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stdout = self
        self.calls: list[str] = []

    def readline(self) -> str:
        raise KeyboardInterrupt

    def poll(self) -> None:
        return None

    def terminate(self) -> None:
        self.calls.append("terminate")

    def wait(self, timeout: float = 0) -> int:
        self.calls.append("wait")
        return 0

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> Starting:
    process = Starting()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)
    return process


def test_the_testing_cluster(up: Starting, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ClusterProcesses(tmp_path).start()
    assert up.calls[:2] == ["terminate", "wait"]


def test_the_cluster_of_scripts(up: Starting, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Cluster(tmp_path).__enter__()
    assert up.calls == ["terminate", "wait"]
