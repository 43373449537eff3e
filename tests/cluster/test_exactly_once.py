"""Consume, transform, produce in transactions, while the application and brokers are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.core.coordinator_partition import partition_for
from tests.support.exactly_once_app import TRANSACTIONAL_ID
from tests.support.real_cluster import RealCluster, until

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
SOURCE, TARGET = "eo-source", "eo-target"
EACH = 60  # records between two kills
LIMIT_S = 180


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


class Application:
    """Runs, and is started again whenever it ends."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        script = Path(__file__).parents[1] / "support" / "exactly_once_app.py"
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
                self._command, stdout=self._log, stderr=self._log, cwd=Path(__file__).parents[2]
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
    """What a reader of committed records has seen so far."""

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
        """So many records."""

        def look() -> bool:
            for message in self._consumer.consume(500, 1.0):
                if not message.error():
                    self.seen[message.value().decode()] += 1
            return self.seen.total() >= count

        until(look, what, LIMIT_S)

    def close(self) -> None:
        self._consumer.close()


def send(bootstrap: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + EACH):
        producer.produce(SOURCE, str(number), partition=0)
    assert producer.flush(LIMIT_S) == 0


@pytest.mark.mission("DOP-5")
def test_nothing_is_lost_and_nothing_doubled(whole: RealCluster, tmp_path: Path) -> None:
    """In turn: the application, the coordinator's broker, the leader of what is written, and the
    controller are killed while records are on their way."""
    for topic in (SOURCE, TARGET):
        whole.create_topic(topic)
    where = partition_for(TRANSACTIONAL_ID, 50)
    application = Application(whole.bootstrap, tmp_path / "application.log")
    reader = Reader(whole.bootstrap)
    sent = 0
    try:
        send(whole.bootstrap, sent)
        sent += EACH
        reader.until(sent, "the first records")
        for victim in ("application", "coordinator", "leader", "application", "controller"):
            send(whole.bootstrap, sent)
            sent += EACH
            time.sleep(0.5)  # so that some of them are in a transaction, mostly
            if victim == "application":
                application.kill()
            else:
                broker_id = {
                    "coordinator": whole.state("__transaction_state", where),
                    "leader": whole.state(TARGET),
                    "controller": {"leader": whole.znode("/controller")["brokerid"]},
                }[victim]["leader"]
                whole.end_broker(broker_id, signal.SIGKILL)
                reader.until(sent, f"records after the {victim} died")
                whole.restart_broker(broker_id)
                whole.until_whole()
            reader.until(sent, f"records after the {victim} died")
    finally:
        application.stop()
        reader.close()
    assert reader.seen == Counter(f"seen {number}" for number in range(sent))
    assert application.starts > 2
