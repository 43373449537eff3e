"""Official Kafka Streams, whose members form a streams group (KIP-1071), passes its smoke test."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.cli import main
from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.apache_kafka import NoApacheKafka, class_path, java_command, java_with_compiler
from scripts.lib.kraft_broker import KAFKA_4
from tests.support.cluster.cluster_state import until
from tests.support.cluster.kafka_tools import OneBroker, normalised
from tests.support.cluster.tool_jvm import tool_jvm

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PROGRAM = Path(__file__).parents[1] / "support/streams/Smoke.java"
GROUP = "SmokeTest"
PARTITIONS = 2
# What the smoke test reads and writes.
TOPICS = (
    *("data", "echo", "max", "min", "min-raw", "min-suppressed", "sum", "sws-raw"),
    *("sws-suppressed", "dif", "cnt", "avg", "tagg"),
)
PRODUCING_S = 5
LIMIT_S = 120


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
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 3) for name in TOPICS]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


COMMANDS = (
    "list",
    "list --state",
    "list --state Stable,Empty",
    f"describe --group {GROUP}",
    f"describe --group {GROUP} --verbose",
    f"describe --group {GROUP} --members",
    f"describe --group {GROUP} --members --verbose",
    f"describe --group {GROUP} --state",
    f"describe --group {GROUP} --state --verbose",
)


def verb(cluster: InsideCluster, words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `minikafka streams-groups` prints."""
    capsys.readouterr()
    main.main(["streams-groups", *words.split(), "--bootstrap-server", cluster.bootstrap])
    return capsys.readouterr().out


def compare_tools(
    cluster: InsideCluster, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that our verb prints what kafka-streams-groups prints."""
    place = OneBroker(cluster.bootstrap, directory)
    server = ("--bootstrap-server", "{bootstrap}")
    with tool_jvm(KAFKA_4) as jvm:
        for words in COMMANDS:
            official = jvm.run(place, "streams-groups", *server, *f"--{words}".split())
            printed = normalised(place, verb(cluster, words, capsys))
            # The tool's rows are in the order of a hash map.
            assert _sorted_lines(printed) == _sorted_lines(official.out), words


def _sorted_lines(text: str) -> list[str]:
    return sorted(line.rstrip() for line in text.splitlines() if line.strip())


class SmokeProcess:
    """A process of ``PROGRAM``. One that processes ends when its standard input ends."""

    def __init__(self, role: str, bootstrap: str, argument: str, directory: Path) -> None:
        self._output = directory / "output"
        with self._output.open("wb") as output, (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                smoke_command(role, bootstrap, argument),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
            )

    def has_printed(self, line: str) -> bool:
        return line in self._output.read_text().splitlines()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


def smoke_command(*arguments: str) -> list[str]:
    """Return the command of the program, or skip the test where it cannot run."""
    try:
        jars = Path(class_path(KAFKA_4)).with_name("tests")
        if not any(jars.glob("kafka-streams-*.jar")):
            pytest.skip("Kafka's tests are missing: run scripts/kafka-jars")
        java_with_compiler()  # which runs a program's source
        return java_command(KAFKA_4, str(PROGRAM), *arguments, classes=jars / "*")
    except NoApacheKafka as missing:
        pytest.skip(str(missing))


def records_in(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(each, 10)[1] for each in partitions)
    finally:
        consumer.close()


@pytest.mark.mission("STR-2")
def test_the_smoke_test_of_kafka_streams_passes_though_an_instance_is_killed(
    cluster: InsideCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    processes: list[SmokeProcess] = []

    def start(role: str, argument: str = "") -> SmokeProcess:
        directory = tmp_path / str(len(processes))
        directory.mkdir()
        argument = argument or str(directory / "state")
        processes.append(SmokeProcess(role, cluster.bootstrap, argument, directory))
        return processes[-1]

    try:
        killed, survivor = start("process"), start("process")
        until(
            lambda: killed.has_printed("RUNNING") and survivor.has_printed("RUNNING"),
            "both instances run",
            LIMIT_S,
        )
        driver = start("drive", str(PRODUCING_S))
        until(lambda: records_in(cluster.bootstrap, "echo") > 50, "records are echoed", LIMIT_S)
        killed.process.kill()
        assert driver.process.wait(LIMIT_S) == 0
        assert driver.has_printed("PASSED")
        compare_tools(cluster, tmp_path, capsys)
        survivor.close()
        deleted = verb(cluster, f"delete --group {GROUP} --delete-all-internal-topics", capsys)
        assert re.sub(r"\([^)]*\)", "", deleted).splitlines() == [
            "Deletion of requested streams groups  was successful.",
            "Deletion of associated internal topics of the streams groups  was successful.",
        ]
    finally:
        for each in processes:
            each.process.kill()
            each.process.wait(LIMIT_S)
