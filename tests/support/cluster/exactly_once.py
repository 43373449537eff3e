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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.core.coordinator_shard import partition_for
from tests.support.clients.confluent import value_of
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster

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

    def __init__(self, log: Path, *arguments: str) -> None:
        script = Path(__file__).with_name("exactly_once_app.py")
        self._command = [sys.executable, str(script), *arguments]
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

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: Counter[str] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-of-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def until(self, count: int, what: str) -> None:
        """Wait until it has read so many records."""

        def look() -> bool:
            for message in self._consumer.consume(500, 0.1):
                if not message.error():
                    self.seen[value_of(message).decode()] += 1
            return self.seen.total() >= count

        until(look, what, LIMIT_S)

    def close(self) -> None:
        self._consumer.close()


class Brokers(Protocol):
    """A cluster whose brokers can be killed."""

    @property
    def bootstrap(self) -> str: ...

    def create_topic(self, name: str) -> None: ...

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]: ...

    def znode(self, path: str) -> Any: ...

    def end_broker(self, broker_id: int, number: signal.Signals) -> None: ...

    def restart_broker(self, broker_id: int) -> None: ...

    def until_whole(self) -> None: ...


class ExactlyOnce:
    """A context manager: an application in a cluster, and a reader of the application's output.

    ``name`` is the application's consumer group and transactional id. It reads ``<name>-source``
    and writes ``<name>-target``; both are created where they do not exist.
    """

    def __init__(self, cluster: Brokers, log: Path, name: str = "exactly-once") -> None:
        self._cluster, self._name = cluster, name
        self._source, self._target = f"{name}-source", f"{name}-target"
        for topic in (self._source, self._target):
            if cluster.znode(f"/brokers/topics/{topic}") is None:
                cluster.create_topic(topic)
        self.application = Application(log, cluster.bootstrap, self._source, self._target, name)
        self.reader = Reader(cluster.bootstrap, self._target)
        self.sent = 0

    def __enter__(self) -> ExactlyOnce:
        self.send()
        self.until_processed("the first records")
        return self

    def __exit__(self, *_: object) -> None:
        self.application.stop()
        self.reader.close()

    def coordinator(self) -> int:
        """Return the id of the broker that coordinates the application's transactions."""
        topic = "__transaction_state"
        partitions = self._cluster.znode(f"/brokers/topics/{topic}")["partitions"]
        partition = partition_for(self._name, len(partitions))
        return int(self._cluster.state(topic, partition)["leader"])

    def kill(self, victim: str, delay_s: float) -> None:
        """Kill one of ``VICTIMS`` ``delay_s`` after records were sent. All of these records must be
        processed, both while the victim is dead and after its restart."""
        self.send()
        time.sleep(delay_s)
        if victim == "application":
            self.application.kill()
            self.until_processed("records after the application died")
            return
        cluster = self._cluster
        find: dict[str, Callable[[], int]] = {
            "coordinator": self.coordinator,
            "leader": lambda: int(cluster.state(self._target)["leader"]),
            "controller": lambda: int(cluster.znode("/controller")["brokerid"]),
        }
        broker_id = find[victim]()
        cluster.end_broker(broker_id, signal.SIGKILL)
        self.until_processed(f"records after the {victim} died")
        cluster.restart_broker(broker_id)
        cluster.until_whole()

    def until_processed(self, what: str) -> None:
        """Wait until the reader has read as many records as were sent."""
        self.reader.until(self.sent, what)

    def check(self) -> None:
        """Check that no record is lost or doubled."""
        assert self.reader.seen == Counter(f"seen {number}" for number in range(self.sent))

    def send(self) -> None:
        """Send ``EACH`` more records for the application."""
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True}
        )
        for number in range(self.sent, self.sent + EACH):
            producer.produce(self._source, str(number), partition=0)
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
