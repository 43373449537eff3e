"""docker-compose.yml on a real engine: up, produce, SIGTERM, back, down, data kept."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support import docker_engine as engine

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("cluster")]

PORTS = (9092, 9093, 9094)
BOOTSTRAP = ",".join(f"localhost:{port}" for port in PORTS)
TOPIC = "containers"
RECORDS = 1_000
PATIENCE_S = 90


class Compose:
    def __init__(self) -> None:
        command = engine.compose_command()
        assert command is not None
        self._command = [*command, "-p", "minikafka-test"]

    def __call__(self, *arguments: str) -> str:
        return engine.run(*self._command, *arguments)

    def container(self, service: str) -> str:
        return self("ps", "-a", "-q", service).strip()

    def state(self, service: str, template: str) -> str:
        return engine.run("docker", "inspect", "-f", template, self.container(service)).strip()

    def wait_until_healthy(self) -> None:
        for service in ("broker-1", "broker-2", "broker-3"):
            until(
                f"{service} healthy",
                lambda s=service: self.state(s, "{{.State.Health.Status}}") == "healthy",
            )


def until(what: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.2)


@pytest.fixture
def compose() -> Iterator[Compose]:
    reason = engine.why_not()
    if reason is not None:
        pytest.skip(reason)
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} of docker-compose.yml is taken")
    engine.provide_images()
    running = Compose()
    try:
        yield running
    finally:
        running("down", "--volumes", "--remove-orphans")


def leaders_and_isrs() -> list[tuple[int, list[int]]]:
    from confluent_kafka.admin import AdminClient

    topics = AdminClient({"bootstrap.servers": BOOTSTRAP}).list_topics(TOPIC, timeout=10).topics
    return [(p.leader, sorted(p.isrs)) for p in topics[TOPIC].partitions.values()]


def produce(first: int) -> None:
    from confluent_kafka import Producer

    failed = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all"})
    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, str(number), on_delivery=lambda e, _: e and failed.append(e))
    assert producer.flush(60) == 0
    assert not failed


def consume(count: int) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(3)])
    found = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(message.value()) for message in consumer.consume(500, 1) if message.value()]
    consumer.close()
    return sorted(found)


@pytest.mark.mission("CRD-6", "CRD-7", "CRD-5")
def test_compose(compose: Compose) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    compose("up", "-d")
    compose.wait_until_healthy()
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(30)
    produce(0)

    compose("kill", "-s", "SIGTERM", "broker-2")
    until("broker-2 gone", lambda: compose.state("broker-2", "{{.State.Running}}") == "false")
    assert compose.state("broker-2", "{{.State.ExitCode}}") == "0"
    until(
        "led by others",
        lambda: all(leader != 2 and isr == [1, 3] for leader, isr in leaders_and_isrs()),
    )
    produce(RECORDS)

    compose("start", "broker-2")
    until("every ISR whole", lambda: all(isr == [1, 2, 3] for _, isr in leaders_and_isrs()))
    assert consume(2 * RECORDS) == list(range(2 * RECORDS))

    compose("down")
    compose("up", "-d")
    compose.wait_until_healthy()
    until("every ISR whole", lambda: all(isr == [1, 2, 3] for _, isr in leaders_and_isrs()))
    assert consume(2 * RECORDS) == list(range(2 * RECORDS))
    verb = ("minikafka", "topics", "list", "--bootstrap-server", "broker-1:29092")
    listed = compose("exec", "-T", "broker-3", *verb)
    assert TOPIC in listed.split()
