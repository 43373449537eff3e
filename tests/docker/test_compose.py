"""docker-compose.yml on a real engine: up, produce, SIGTERM, back, down, data kept."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minikafka.server.broker.controlled_shutdown import ControlledShutdownConfig
from tests.support.clients.confluent import value_of
from tests.support.cluster import docker_engine as engine
from tests.support.cluster.real_cluster import run_verb

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("cluster")]

PORTS = (9092, 9093, 9094)
BOOTSTRAP = ",".join(f"localhost:{port}" for port in PORTS)
INSIDE = "broker-1:29092,broker-2:29092,broker-3:29092"
SERVICES = ("broker-1", "broker-2", "broker-3")
SECURE_PORTS = (9192, 9193, 9194)
SECURE_SERVICES = ("secure-broker-1", "secure-broker-2", "secure-broker-3")
KEYS = "/var/lib/minikafka-secured/keys"
TOPIC = "containers"
RECORDS = 1_000
PATIENCE_S = 180


class Compose:
    def __init__(self) -> None:
        command = engine.compose_command()
        assert command is not None
        self._command = [*command, "-p", "minikafka-test"]

    def __call__(self, *arguments: str) -> str:
        return engine.run(*self._command, *arguments)

    def container(self, service: str) -> str:
        return self("ps", "-a", "-q", service).strip()

    def _why(self, service: str) -> str:
        return self.state(service, "{{json .State.Health.Log}}") + self("logs", service)

    def state(self, service: str, template: str) -> str:
        return engine.run("docker", "inspect", "-f", template, self.container(service)).strip()

    def wait_until_healthy(self, services: Sequence[str] = SERVICES) -> None:
        for service in services:
            until(
                f"{service} healthy",
                partial(lambda s: self.state(s, "{{.State.Health.Status}}") == "healthy", service),
                partial(
                    lambda s: self.state(s, "{{json .State.Health.Log}}") + self("logs", s), service
                ),
            )


def until(
    what: str, reached: Callable[[], bool], last_words: Callable[[], str] = lambda: ""
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() >= deadline:
            pytest.fail(f"{what}: not within {PATIENCE_S} s\n{last_words()[-5000:]}")
        time.sleep(0.2)


@pytest.fixture
def compose() -> Iterator[Compose]:
    reason = engine.why_not()
    if reason is not None:
        pytest.skip(reason)
    for port in (*PORTS, *SECURE_PORTS):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} of docker-compose.yml is taken")
    engine.provide_images()
    running = Compose()
    try:
        yield running
    finally:
        running("--profile", "secure", "down", "--volumes", "--remove-orphans")


def leaders_and_isrs() -> list[tuple[int, list[int]]]:
    from confluent_kafka.admin import AdminClient

    topics = AdminClient({"bootstrap.servers": BOOTSTRAP}).list_topics(TOPIC, timeout=10).topics
    return [(p.leader, sorted(p.isrs)) for p in topics[TOPIC].partitions.values()]


def produce(first: int) -> None:
    from confluent_kafka import Producer

    failed = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all"})
    for number in range(first, first + RECORDS):
        producer.produce(
            TOPIC, str(number), on_delivery=lambda e, _: failed.extend([e] if e else [])
        )
    assert producer.flush(60) == 0
    assert not failed


def consume(count: int) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(3)])
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(value_of(message)) for message in consumer.consume(500, 1) if message.value()]
    consumer.close()
    return sorted(found)


def inside(compose: Compose, *verb: str) -> str:
    """A client in another container, by the inner listeners."""
    image = ("--network", "minikafka", "--entrypoint", "minikafka", "minikafka")
    return engine.run("docker", "run", "--rm", *image, *verb)


def check_containers(compose: Compose) -> None:
    """Nobody is root, the broker gets the signals itself and has time for them; clients in
    containers write and read, too."""
    for service in SERVICES:
        assert compose("exec", "-T", service, "id", "-u").strip() == "1000"
        said = compose("exec", "-T", service, "cat", "/proc/1/cmdline").split("\0")
        assert [word.rpartition("/")[2] for word in said[1:3]] == ["minikafka", "broker"]
        limit_s = int(compose.state(service, "{{.Config.StopTimeout}}"))
        assert limit_s * 1000 > ControlledShutdownConfig().limit_ms
    verdict = inside(
        compose,
        *("verify", "--bootstrap-server", INSIDE, "--duration-s", "5", "--json"),
    )
    assert json.loads(verdict)["ok"]
    assert json.loads(verdict)["workloads"]["append"]["counts"]["records_acknowledged"] > 0
    read = ("--topic", TOPIC, "--from-beginning", "--max-messages", str(RECORDS))
    told = inside(compose, "consume", "--bootstrap-server", INSIDE, *read)
    assert sorted(map(int, told.split())) == list(range(RECORDS))


@pytest.mark.mission("CRD-6", "CRD-7", "CRD-5", "CSH-1")
def test_compose(compose: Compose) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    compose("up", "-d")
    compose.wait_until_healthy()
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(30)
    produce(0)
    check_containers(compose)

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
    assert TOPIC in inside(compose, "topics", "list", "--bootstrap-server", INSIDE).split()


@pytest.mark.mission("SEC-195")
def test_the_profile_secure(compose: Compose, tmp_path: Path) -> None:
    """From this machine, with the configurations that its one-shot service has made."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    compose("--profile", "secure", "up", "-d", *SECURE_SERVICES)
    compose.wait_until_healthy(SECURE_SERVICES)
    bootstrap = ",".join(f"localhost:{port}" for port in SECURE_PORTS)
    settings = tmp_path / "client.properties"
    path = f"{KEYS}/clients/app/client.properties"
    settings.write_text(compose("exec", "-T", "secure-broker-1", "cat", path))
    verdict = run_verb(
        *("verify", "--bootstrap-server", bootstrap, "--command-config", str(settings)),
        *("--topic", "app-containers", "--duration-s", "3", "--json"),
    )
    assert verdict.returncode == 0, verdict.stderr
    assert json.loads(verdict.stdout)["workloads"]["append"]["counts"]["records_acknowledged"] > 0
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2)
    reach = "import socket; socket.getaddrinfo('secure-zookeeper', 2181)"
    image = ("--network", "minikafka", "--entrypoint", "python3", "minikafka", "-c", reach)
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        engine.run("docker", "run", "--rm", *image)
