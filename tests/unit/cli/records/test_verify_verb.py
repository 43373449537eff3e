"""The verb `verify` without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.cli.main import main
from scripts.lib.cluster import free_ports


def test_a_cluster_that_does_not_respond_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=300\n")
    where = ["--bootstrap-server", servers, "--command-config", str(settings)]
    assert main(["verify", *where, "--duration-s", "1"]) == 1
    assert f"no broker responded at {servers}" in capsys.readouterr().err
