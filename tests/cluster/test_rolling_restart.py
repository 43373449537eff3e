"""All brokers are restarted one by one under the load of two client libraries."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.support.cluster.cluster_state import until
from tests.support.cluster.load import read_values
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

TOPIC = "rolling"
PAUSE_S = 0.005


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


class Load(ABC):
    """Writes numbers to a partition that no other load uses, with acks=all and otherwise the
    library's defaults."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self.until_more()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Returns when every record is settled."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def until_more(self, count: int = 100) -> None:
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal, f"{count} more acknowledged", 60)

    def _run(self) -> None:
        send, finish = self._open()
        number = 0
        while not self._stop.is_set():
            send(number)
            number += 1
            self._stop.wait(PAUSE_S)
        finish()

    @abstractmethod
    def _open(self) -> tuple[Callable[[int], None], Callable[[], Any]]:
        """What sends a number, and what waits until all are settled."""

    def check(self, bootstrap: str, may_be_doubled: bool) -> None:
        assert not self.errors
        stored = read_values(bootstrap, TOPIC, self.partition)
        assert set(stored) == set(self.acknowledged)
        if not may_be_doubled:
            assert stored == sorted(set(stored)), "out of order or twice"


class Confluent(Load):
    def __init__(self, bootstrap: str, partition: int, **settings: object) -> None:
        super().__init__(partition)
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0, **settings}

    def _open(self) -> tuple[Callable[[int], None], Callable[[], Any]]:
        producer = Producer(self._settings)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.acknowledged.append(int(message.value()))

        def send(number: int) -> None:
            value = str(number).encode()
            producer.produce(TOPIC, value, partition=self.partition, on_delivery=delivered)
            producer.poll(0)

        return send, lambda: producer.flush(90)


class KafkaPython(Load):
    def __init__(self, bootstrap: str, partition: int, **settings: Any) -> None:
        super().__init__(partition)
        self._settings = {"bootstrap_servers": bootstrap.split(","), "acks": "all", **settings}

    def _open(self) -> tuple[Callable[[int], None], Callable[[], Any]]:
        producer = KafkaProducer(**self._settings)

        def send(number: int) -> None:
            future = producer.send(TOPIC, str(number).encode(), partition=self.partition)
            future.add_callback(lambda _: self.acknowledged.append(number))
            future.add_errback(lambda error: self.errors.append(repr(error)))

        return send, lambda: producer.close(timeout=90)


@pytest.mark.mission("CSH-1", "CSH-3", "CSH-8", "CSH-13", "OPS-3")
def test_no_producer_fails_during_a_rolling_restart(whole: RealCluster) -> None:
    """Two producers are idempotent, and two have the defaults of their library."""
    whole.create_topic(TOPIC, partitions=4, config="min.insync.replicas=2")
    whole.until_whole()
    with (
        Confluent(whole.bootstrap, 0) as first,
        Confluent(whole.bootstrap, 1, **{"enable.idempotence": True}) as second,
        KafkaPython(whole.bootstrap, 2, enable_idempotence=False) as third,
        KafkaPython(whole.bootstrap, 3, enable_idempotence=True) as fourth,
    ):
        loads = (first, second, third, fourth)
        for broker_id in whole.broker_ids:
            pid = whole.broker_pid(broker_id)
            done = run_verb(
                *("stop", "--broker", str(broker_id), "--data-dir", str(whole.directory))
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"broker {broker_id} stopped (pid ")
            whole.reap(broker_id, pid)
            for load in loads:
                load.until_more()
            whole.restart_broker(broker_id)
            whole.until_whole()
        for load in loads:
            load.until_more()
            load.end()
    for load, may_be_doubled in zip(loads, (True, False, True, False), strict=True):
        load.check(whole.bootstrap, may_be_doubled)
