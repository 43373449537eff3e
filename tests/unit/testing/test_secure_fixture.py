"""The fixture ``minikafka_secure_cluster`` starts a secured cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest


class Recorded:
    """In place of ``ClusterProcesses``."""

    def __init__(self, directory: Path, *_: Any, secure: bool = False) -> None:
        self.secure = secure
        self.started = False

    def __enter__(self) -> Self:
        self.started = True
        return self

    def __exit__(self, *_: object) -> None:
        self.started = False


def test_the_cluster_is_started_secure(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.testing.processes.ClusterProcesses", Recorded)
    cluster = request.getfixturevalue("minikafka_secure_cluster")
    assert (cluster.secure, cluster.started) == (True, True)
