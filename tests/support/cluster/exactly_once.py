"""Read, transform, write in transactions under SIGKILL; run as a program, for as long as you like.

usage: python -m tests.support.cluster.exactly_once MINUTES [SEED]
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.core.coordinator_partition import partition_for
from tests.support.clients.confluent import value_of
from tests.support.cluster.cluster_state import until
from tests.support.cluster.exactly_once_app import TRANSACTIONAL_ID
from tests.support.cluster.real_cluster import RealCluster

SOURCE, TARGET = "eo-source", "eo-target"
VICTIMS = ("application", "coordinator", "leader", "controller")
EACH = 60  # records between two kills
LIMIT_S = 180
SOON_DEAD = (  # a death is noticed within two seconds
    "zookeeper.session.timeout.ms=2000",
    "replica.lag.time.max.ms=3000",
    "log.segment.delete.delay.ms=500",
)


class Application:
    """An application process that is restarted whenever it ends."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        script = Path(__file__).with_name("exactly_once_app.py")
        self._command = [sys.executable, str(script), bootstrap, SOURCE, TARGET]
        self._log = log.open("ab")
        self._stopping = threading.Event()
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self.starts += 1
            self._process = subprocess.Popen(
                self._command, stdout=self._log, stderr=self._log, cwd=Path(__file__).parents[3]
            )
            self._process.wait()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def stop(self) -> None:
        self._stopping.set()
        while self._keeper.is_alive():
            self.kill()
            self._keeper.join(0.1)
        self._log.close()


class Reader:
    """A consumer of committed records, and the records that it has read so far."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: Counter[str] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "eo-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(TARGET, 0, 0)])

    def until(self, count: int, what: str) -> None:
        """Wait until it has read so many records."""

        def look() -> bool:
            for message in self._consumer.consume(500, 1.0):
                if not message.error():
                    self.seen[value_of(message).decode()] += 1
            return self.seen.total() >= count

        until(look, what, LIMIT_S)

    def close(self) -> None:
        self._consumer.close()


class ExactlyOnce:
    """A context manager: a cluster, the application, and a reader of the application's output."""

    def __init__(self, cluster: RealCluster, log: Path) -> None:
        self._cluster = cluster
        self._where = partition_for(TRANSACTIONAL_ID, 50)
        for topic in (SOURCE, TARGET):
            cluster.create_topic(topic)
        self.application = Application(cluster.bootstrap, log)
        self.reader = Reader(cluster.bootstrap)
        self.sent = 0

    def __enter__(self) -> ExactlyOnce:
        self._send()
        self.reader.until(self.sent, "the first records")
        return self

    def __exit__(self, *_: object) -> None:
        self.application.stop()
        self.reader.close()

    def kill(self, victim: str, delay_s: float) -> None:
        """Kill one of ``VICTIMS`` ``delay_s`` after records were sent. All of these records must be
        processed, both while the victim is dead and after its restart."""
        self._send()
        time.sleep(delay_s)
        if victim == "application":
            self.application.kill()
            self.reader.until(self.sent, "records after the application died")
            return
        cluster = self._cluster
        broker_id = {
            "coordinator": lambda: cluster.state("__transaction_state", self._where)["leader"],
            "leader": lambda: cluster.state(TARGET)["leader"],
            "controller": lambda: cluster.znode("/controller")["brokerid"],
        }[victim]()
        cluster.end_broker(broker_id, signal.SIGKILL)
        self.reader.until(self.sent, f"records after the {victim} died")
        cluster.restart_broker(broker_id)
        cluster.until_whole()

    def check(self) -> None:
        """Check that no record is lost or doubled."""
        assert self.reader.seen == Counter(f"seen {number}" for number in range(self.sent))

    def _send(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True}
        )
        for number in range(self.sent, self.sent + EACH):
            producer.produce(SOURCE, str(number), partition=0)
        assert producer.flush(LIMIT_S) == 0
        self.sent += EACH


def soak(minutes: float, seed: int) -> None:
    """Kill random victims at random times. Raises AssertionError at the first record that is lost,
    doubled, or not processed in time."""
    chance = random.Random(seed)
    kills: Counter[str] = Counter()
    home = Path(tempfile.mkdtemp(prefix="exactly-once-"))
    _say(f"seed {seed}, logs in {home}")
    end = time.monotonic() + 60 * minutes
    with (
        RealCluster(home / "cluster", overrides=SOON_DEAD) as cluster,
        ExactlyOnce(cluster, home / "application.log") as run,
    ):
        while time.monotonic() < end:
            victim = chance.choice(VICTIMS)
            run.kill(victim, chance.random())
            run.check()
            kills[victim] += 1
            _say(f"{run.sent} records, {dict(kills)}")
        _say(f"nothing lost or doubled; the application started {run.application.starts} times")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    soak(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 10_000)
