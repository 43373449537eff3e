"""Full, broken and slow disks of brokers inside the process, with clients of others beside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20


@pytest.fixture
def two() -> Iterator[InsideCluster]:
    with InsideCluster(2, {"log.dirs": "/one,/two"}) as cluster:
        yield cluster


class Deliveries:
    """A confluent-kafka producer with acks=all, and what became of its records."""

    def __init__(self, cluster: InsideCluster, **settings: object) -> None:
        self.errors: list[KafkaError] = []
        self.delivered = 0
        fixed = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({**fixed, "retry.backoff.ms": 10, **settings})

    def send(self, topic: str, count: int = 5) -> None:
        for _ in range(count):
            self._producer.produce(topic, b"x" * 100, on_delivery=self._done)

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def _done(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.errors.append(error)


@pytest.mark.mission("IN-65")
def test_a_full_disk_goes_on_when_there_is_space_again(two: InsideCluster) -> None:
    two.create_topic("t")
    two.move_leader("t", 0, 1)
    producer = Deliveries(two)
    producer.send("t")
    producer.flush()
    with two.environment_faults.full_disk(1) as fault:
        producer.send("t")
        fault.wait(2)  # of a Produce request, and of its retry
        assert producer.delivered == 5
        assert fault.hits >= 2
    producer.flush()
    assert (producer.delivered, producer.errors) == (10, [])
    assert two.is_running(1)


@pytest.mark.mission("IN-65")
def test_kafka_python_sees_the_error_of_a_full_disk(two: InsideCluster) -> None:
    two.create_topic("t")
    two.move_leader("t", 0, 1)
    producer = KafkaProducer(
        bootstrap_servers=two.bootstrap, retries=0, enable_idempotence=False, acks=1
    )
    producer.send("t", b"fits").get(TIMEOUT_S)
    with two.environment_faults.full_disk(1, free_bytes=500) as fault:
        producer.send("t", b"fits").get(TIMEOUT_S)
        assert fault.hits == 0
        with pytest.raises(PythonKafkaError, match="KafkaStorageError"):
            producer.send("t", b"x" * 1000).get(TIMEOUT_S)
        assert fault.hits >= 1
    producer.send("t", b"x" * 1000).get(TIMEOUT_S)
    producer.close()


@pytest.mark.mission("IN-65")
def test_a_follower_with_a_full_disk_falls_behind_and_comes_back(two: InsideCluster) -> None:
    two.create_topic("t")
    two.move_leader("t", 0, 1)
    producer = Deliveries(two)
    with two.environment_faults.full_disk(2) as fault:
        producer.send("t")
        fault.wait()
        producer.flush()  # the follower has left the ISR
        assert any(event.name == "isr_shrinking" for event in two.events())
    two.move_leader("t", 0, 2)  # waits until it is in the ISR
    producer.send("t")
    producer.flush()
    assert (producer.delivered, producer.errors) == (10, [])


@pytest.mark.mission("IN-66")
def test_a_broken_log_directory_goes_offline(two: InsideCluster) -> None:
    two.create_topic("t", 6)
    producer = Deliveries(two)
    with two.environment_faults.broken_disk(1, "/one") as fault:
        producer.send("t", 100)
        producer.flush()
        fault.wait()
    assert (producer.delivered, producer.errors) == (100, [])
    assert two.is_running(1)
    (event,) = two.events("replicas_taken_offline")
    assert event.facts["directory"] == "/one"


@pytest.mark.mission("IN-66")
def test_a_broken_disk_ends_its_broker(capfd: pytest.CaptureFixture[str]) -> None:
    with InsideCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, 1)
        producer = Deliveries(cluster)
        with cluster.environment_faults.broken_disk(1) as fault:
            producer.send("t")
            producer.flush()  # to the other broker
            fault.wait()
            assert not cluster.is_running(1)
        assert cluster.leader("t") == 2
        (event,) = cluster.events("broker_failed")
        assert (event.facts["broker"], "all log directories" in event.facts["error"]) == (1, True)
        cluster.start_broker(1)
        cluster.move_leader("t", 0, 1)
        producer.send("t")
        producer.flush()
        assert (producer.delivered, producer.errors) == (10, [])
    assert capfd.readouterr() == ("", "")


@pytest.mark.mission("IN-67")
def test_a_slow_disk_delays_flushes(two: InsideCluster) -> None:
    two.create_topic("t", settings={"flush.messages": "1"})
    two.move_leader("t", 0, 1)
    producer = Deliveries(two)
    with two.environment_faults.slow_disk(1, 0.05) as fault:
        producer.send("t", 1)
        producer.flush()
        assert fault.hits >= 1
        two.create_topic("other")  # the other brokers go on
    hits = fault.hits
    producer.send("t", 1)
    producer.flush()
    assert fault.hits == hits
    assert fault.describe() == f"slow disk of broker 1, 0.05 s ({hits} hits, removed)"


def test_handles_report_missing_hits(two: InsideCluster) -> None:
    fault = two.environment_faults.full_disk(2, free_bytes=1 << 30)
    with pytest.raises(AssertionError, match=r"full disk of broker 2.*: 0 of 3 hits within 0 s"):
        fault.wait(3, timeout=0)
    assert list(two.environment_faults) == [fault]
    two.reset()
    assert fault.is_removed
    assert list(two.environment_faults) == []
    fault.remove()
    with pytest.raises(ValueError, match=r"there is no broker 7; brokers: \[1, 2\]"):
        two.environment_faults.broken_disk(7)
    with pytest.raises(ValueError, match="slow"):
        two.environment_faults.slow_disk(1, -1)
