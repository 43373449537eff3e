"""Official Kafka Streams, whose members form a streams group (KIP-1071), counts exactly once."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.apache_kafka import NoApacheKafka, class_path, java_command, java_with_compiler
from scripts.lib.kraft_broker import KAFKA_4
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import run_verb

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PROGRAM = Path(__file__).parents[1] / "support/streams/WordCount.java"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
LIMIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    settings = {
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "group.streams.initial.rebalance.delay.ms": 1_000,
        "group.streams.heartbeat.interval.ms": 500,
        "group.streams.min.heartbeat.interval.ms": 500,
        "group.streams.session.timeout.ms": 5_000,
        "group.streams.min.session.timeout.ms": 5_000,
    }
    with InsideCluster(3, settings) as running:
        topics = [NewTopic("lines", 4, 3), NewTopic("counts", 2, 3)]
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


COMMANDS = (
    "list",
    "list --state",
    "list --state Stable,Empty",
    "describe --group word-count",
    "describe --group word-count --verbose",
    "describe --group word-count --members",
    "describe --group word-count --members --verbose",
    "describe --group word-count --state",
    "describe --group word-count --state --verbose",
)


def ours(cluster: InsideCluster, command: str) -> list[str]:
    """Return the lines that our verb prints."""
    done = run_verb("streams-groups", *command.split(), "--bootstrap-server", cluster.bootstrap)
    return _lines(done.stdout)


def theirs(cluster: InsideCluster) -> list[list[str]]:
    """Return the lines that kafka-streams-groups prints for each of ``COMMANDS``."""
    words = [f"--bootstrap-server {cluster.bootstrap} --{command}" for command in COMMANDS]
    command = java_command(KAFKA_4, str(PROGRAM.with_name("StreamsGroupTool.java")), *words)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return [_lines(text.partition("\n")[2]) for text in done.stdout.split("$ ")[1:]]


def _lines(text: str) -> list[str]:
    """Return the title and the sorted rows: Kafka's are in the order of a hash map."""
    title, *rows = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [title, *sorted(rows)]


class Application:
    """A process of the word count. It ends when its standard input ends."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        try:
            jars = Path(class_path(KAFKA_4)).parent
            if not any(jars.glob("kafka-streams-*.jar")):
                pytest.skip("Kafka Streams is missing: run scripts/kafka-jars")
            java_with_compiler()  # which runs a program's source
            command = java_command(
                KAFKA_4, str(PROGRAM), bootstrap, "word-count", str(directory / "state")
            )
        except NoApacheKafka as missing:
            pytest.skip(str(missing))
        directory.mkdir()
        self._output = directory / "output"
        with self._output.open("wb") as output, (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=log
            )

    @property
    def is_running(self) -> bool:
        """Whether it has its tasks."""
        return self._output.read_text().split()[-1:] == ["RUNNING"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


class Lines:
    """The lines that were produced, and how often each word is in them."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._random = random.Random(1)
        self.counts: Counter[str] = Counter()

    def produce(self, number: int) -> None:
        for key in range(number):
            words = self._random.choices(WORDS, k=5)
            self.counts.update(words)
            self._producer.produce("lines", " ".join(words), str(key))
        self._producer.flush(LIMIT_S)


@pytest.mark.mission("STR-2")
def test_kafka_streams_counts_exactly_once_though_an_instance_is_killed(
    cluster: InsideCluster, tmp_path: Path
) -> None:
    lines = Lines(cluster.bootstrap)
    lines.produce(300)
    killed, survivor = (Application(cluster.bootstrap, tmp_path / name) for name in "ab")
    results = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "results",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        until(lambda: killed.is_running and survivor.is_running, "both instances run", LIMIT_S)
        lines.produce(300)
        killed.process.kill()
        lines.produce(300)
        results.subscribe(["counts"])
        newest: dict[str, int] = {}

        def has_all() -> bool:
            for message in results.consume(1_000, 0.2):
                assert message.error() is None
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                newest[key.decode()] = int(value)
            return newest == dict(lines.counts)

        until(has_all, "the counts are exact", LIMIT_S)
        for command, official in zip(COMMANDS, theirs(cluster), strict=True):
            assert ours(cluster, command) == official
        survivor.close()
        assert ours(cluster, "delete --group word-count") == [
            "Deletion of requested streams groups ('word-count') was successful."
        ]
        assert has_all(), "no count follows"
    finally:
        results.close()
        for application in (killed, survivor):
            application.process.kill()
            application.process.wait(LIMIT_S)
