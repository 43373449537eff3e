"""Flame graphs of a broker that accepts small produces, into docs/pictures/performance.

py-spy samples the broker's process from outside: pip install py-spy. Connections keep the broker
busy all the time, so that widths are shares of CPU time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

import uvloop

from scripts.lib.bench.broker_processes import BrokerProcesses
from scripts.lib.bench.load import drive
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import produce_frame
from scripts.lib.bench.side_by_side import create_topics

REPOSITORY: Final = Path(__file__).parents[3]
PICTURES: Final = REPOSITORY / "docs" / "pictures" / "performance"
BYTES: Final = 1 << 10
IN_FLIGHT: Final = 5
WARM_UP: Final = 10_000  # requests
A_ROUND: Final = 5_000
SECONDS: Final = 10
A_SECOND: Final = 400  # samples
COMMAND: Final = re.compile(r"[^<>]*py-spy record [^<]*")  # the title that py-spy writes


def run(report: Report, checkout: Path = REPOSITORY) -> None:
    """Draw the broker of a checkout: of this one as ``after``, of another one as ``before``."""
    name = "produce-after.svg" if checkout == REPOSITORY else "produce-before.svg"
    report.section(f"flame graph of the broker of {checkout.name}, produces of 1 KB")
    with tempfile.TemporaryDirectory() as home:
        os.environ["PYTHONPATH"] = str(checkout)
        try:
            with BrokerProcesses(command, Path(home), 1) as cluster:
                create_topics(cluster, {"bench": [[1]]})
                frame = produce_frame("bench", BYTES, 1)
                uvloop.run(drive(cluster.ports[0], frame, WARM_UP, IN_FLIGHT))
                record(cluster, frame, PICTURES / name)
        finally:
            os.environ["PYTHONPATH"] = str(REPOSITORY)
    picture = PICTURES / name
    title = f"A broker that accepts produces of {BYTES >> 10} KB, {name.partition('.')[0]}"
    picture.write_text(COMMAND.sub(title, picture.read_text()))
    report.row(f"docs/pictures/performance/{name}", "kB", picture.stat().st_size / 1000)


def command(properties: Path) -> list[str]:
    # -P: not the modules of the working directory, which are those of this checkout.
    return [sys.executable, "-P", "-m", "minikafka.cli.main", "broker", "--config", str(properties)]


def record(cluster: BrokerProcesses, frame: bytes, picture: Path) -> None:
    """Sample the broker while it accepts one record after another."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if spy is None:
        raise RuntimeError("py-spy is not installed: pip install py-spy")
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            uvloop.run(drive(cluster.ports[0], frame, A_ROUND, IN_FLIGHT))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        picture.parent.mkdir(exist_ok=True)
        subprocess.run(
            [
                *(spy, "record", "--pid", str(cluster.broker_pid(1)), "--format", "flamegraph"),
                *("--duration", str(SECONDS), "--rate", str(A_SECOND), "--nonblocking"),
                *("--output", str(picture)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    finally:
        stop.set()
        thread.join()
