"""A standalone Spark cluster: a master and workers, started from the PySpark that pip installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from scripts.lib.cluster import free_ports

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_DEADLINE_S = 300
_TICK_S = 0.02


class Standalone:
    """``master`` is its URL. Kills processes of its workers, as a crash would."""

    def __init__(self, directory: Path, java_home: Path, workers: int = 2) -> None:
        self._directory = directory
        self._count = workers
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self.home = Path(spec.origin).parent
        self._environ = {
            **os.environ,
            "JAVA_HOME": str(java_home),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(directory / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        self.master = ""

    def __enter__(self) -> Standalone:
        port = free_ports(1)[0]
        self.master = f"spark://127.0.0.1:{port}"
        self._start("master", _MASTER, "--port", str(port))
        until(lambda: "New state: ALIVE" in self.log_of("master"))
        for number in range(self._count):
            self._start(f"worker-{number}", _WORKER, "-c", "1", "-m", "1g", self.master)
        until(lambda: self.log_of("master").count("Registering worker") == self._count)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)
        self._stack.close()

    def _start(self, name: str, program: str, *arguments: str) -> None:
        log = self._stack.enter_context((self._directory / f"{name}.log").open("wb"))
        command = [str(self.home / "bin" / "spark-class"), program, "--host", "127.0.0.1"]
        self._processes.append(
            subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=self._environ,
            )
        )

    def log_of(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()

    def submit(self, script: Path, *arguments: str, cores: int = 0) -> subprocess.Popen[bytes]:
        """``spark-submit`` on as many cores, 0 for all. Its output goes to ``submit.log``."""
        log = self._stack.enter_context((self._directory / "submit.log").open("wb"))
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.ui.enabled": "false",
        }
        if cores:
            settings["spark.cores.max"] = str(cores)
        command = [str(self.home / "bin" / "spark-submit"), "--master", self.master]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        return subprocess.Popen(
            [*command, str(script), *arguments], stdout=log, stderr=log, env=self._environ
        )


def parent_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def until(reached: Callable[[], bool]) -> None:
    """Raises TimeoutError after two minutes."""
    for _ in range(int(_DEADLINE_S / _TICK_S)):
        if reached():
            return
        threading.Event().wait(_TICK_S)
    raise TimeoutError(f"not within {_DEADLINE_S} s")
