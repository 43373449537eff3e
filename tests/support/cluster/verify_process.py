"""`minikafka verify` as the load on a real cluster, and as the check of the result."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import MINIKAFKA

COUNT = re.compile(r"([\d,]+) records acknowledged")


class VerifyProcess:
    """A process of `minikafka verify`. ``finish`` fails if the cluster broke a guarantee."""

    def __init__(self, bootstrap: str, directory: Path, *options: str) -> None:
        self._command = [
            *(*MINIKAFKA, "verify", "--bootstrap-server", bootstrap, "--json"),
            *("--duration-s", "900", "--progress-s", "0", "--records-per-s", "200", *options),
        ]
        directory.mkdir(parents=True, exist_ok=True)
        self._out, self._err = directory / "verdict.json", directory / "progress"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> VerifyProcess:
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=err)
        self.until_more()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def acknowledged(self) -> int:
        found = COUNT.findall(self._err.read_text())
        return int(found[-1].replace(",", "")) if found else 0

    def until_more(self, count: int = 100, limit_s: float = 90) -> None:
        """Wait for so many more acknowledgements."""
        assert self._process is not None
        process = self._process
        goal = self.acknowledged + count

        def more() -> bool:
            assert process.poll() is None, self._err.read_text()
            return self.acknowledged >= goal

        until(more, f"{count} more acknowledged", limit_s)

    def finish(self) -> dict[str, Any]:
        """End the load and return the verdict of the workload, which must be good."""
        verdict = self.verdict(0)
        assert verdict["ok"]
        return verdict

    def verdict(self, expected_status: int) -> dict[str, Any]:
        """End the load, check its exit status, and return the verdict of the workload."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(timeout=180)
        said = self._out.read_text()
        assert status == expected_status, said or self._err.read_text()
        verdict: dict[str, Any] = json.loads(said)["workloads"]["append"]
        return verdict
