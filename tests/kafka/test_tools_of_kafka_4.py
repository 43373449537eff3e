"""The tools of Kafka 4.2 print the same about a broker of ours as about one of Kafka in KRaft."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.cli import main
from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.kraft_broker import KAFKA_4, kraft_broker
from tests.support.cluster.cluster_state import until
from tests.support.cluster.kafka_tools import ToolOutput, normalised, with_places
from tests.support.cluster.tool_jvm import ToolJvm, tool_jvm

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.mission("MIX-41")]

AT = ("--bootstrap-server", "{bootstrap}")
GROUP, TOPIC = "readers", "t"
# Features of KRaft, and of replicas that only it has.
OF_KRAFT = ("metadata.version", "kraft.version", "eligible.leader.replicas.version")


@dataclass(frozen=True)
class OneBroker:
    """A cluster of one broker, as a tool knows it."""

    bootstrap: str
    directory: Path
    broker_ids: tuple[int, ...] = (1,)

    def address(self, broker_id: int) -> str:
        return self.bootstrap

    def data(self, broker_id: int) -> Path:
        return self.directory


@dataclass(frozen=True)
class Pair:
    """A broker of ours and an official one, and a JVM for their tools."""

    ours: OneBroker
    official: OneBroker
    jvm: ToolJvm

    def run(self, tool: str, *arguments: str, stdin: str = "") -> list[ToolOutput]:
        return [
            self.jvm.run(place, tool, *arguments, stdin=stdin)
            for place in (self.ours, self.official)
        ]

    def same(
        self, tool: str, *arguments: str, stdin: str = "", of: Callable[[str], object] = str
    ) -> str:
        """Run a tool on both: status and output must be the same, and are not empty. ``of`` returns
        what is compared of the output. Return the output of the official broker."""
        ours, official = self.run(tool, *arguments, stdin=stdin)
        assert (ours.status, of(ours.out)) == (official.status, of(official.out)), ours.err
        assert _lines(ours.err) == _lines(official.err)
        assert official.out + official.err
        return official.out


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("tools")
    settings = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
    with ExitStack() as stack:
        try:
            official = stack.enter_context(kraft_broker(tmp_path_factory.mktemp("kraft")))
        except NoApacheKafka as missing:
            pytest.skip(str(missing))
        ours = stack.enter_context(InsideCluster(1, settings)).bootstrap
        jvm = stack.enter_context(tool_jvm(KAFKA_4))
        both = Pair(OneBroker(ours, home), OneBroker(official, home), jvm)
        both.same("topics", *AT, "--create", "--topic", TOPIC, "--partitions", "3")
        for place in (both.ours, both.official):
            producer = Producer({"bootstrap.servers": place.bootstrap})
            for partition in range(3):
                producer.produce(TOPIC, b"v", partition=partition)
            assert producer.flush(30) == 0
        yield both


def _lines(text: str) -> list[str]:
    """Return the lines without ids of members and without widths of columns, in order."""
    text = re.sub(r"(?<=\s)[A-Za-z0-9+/_-]{22}(?=\s)", "<member>", text)
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _features(text: str) -> list[list[str]]:
    """Return the rows of features, without the epoch."""
    rows = [line.split() for line in text.splitlines() if line.startswith("Feature: ")]
    return [row[: row.index("Epoch:")] for row in rows if row[1] not in OF_KRAFT]


def _partitions(text: str) -> list[str]:
    """Return the rows of a topic and its partitions; KRaft has eligible leaders, and sets
    min.insync.replicas for them."""
    return _lines(re.sub(r"Elr:.*|Configs:.*|TopicId: \S+", "", text))


@pytest.fixture(scope="module")
def read(pair: Pair) -> Iterator[None]:
    """Both have a group of the protocol of KIP-848 with one member, which has read all."""
    consumers = []
    for place in (pair.ours, pair.official):
        consumer = Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "client.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumers.append(consumer)
        consumer.subscribe([TOPIC])
        seen: set[int | None] = set()

        def reads_all(consumer: Consumer = consumer, seen: set[int | None] = seen) -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                seen.add(message.partition())
            return len(seen) == 3

        until(reads_all, "all partitions are read", 60)
        consumer.commit(asynchronous=False)
    yield
    for consumer in consumers:
        consumer.close()


def test_features(pair: Pair) -> None:
    found = pair.same("features", *AT, "describe", of=_features)
    assert ["Feature:", "group.version"] in [row[:2] for row in _features(found)]


def test_topics(pair: Pair) -> None:
    pair.same("topics", *AT, "--describe", "--topic", TOPIC, of=_partitions)
    pair.same("topics", *AT, "--describe", "--topic", "unknown")
    by_ones = ("--partition-size-limit-per-response", "1")
    pair.same("topics", *AT, "--describe", "--topic", TOPIC, *by_ones, of=_partitions)


def test_a_group_with_a_member(pair: Pair, read: None) -> None:
    assert "Consumer" in pair.same("groups", *AT, "--list", of=_lines)
    for kind in ("--consumer", "--share"):
        pair.same("groups", *AT, "--list", kind, of=_lines)
    pair.same("consumer-groups", *AT, "--list", "--type", "consumer", "--state", of=_lines)
    for what in ("--offsets", "--members", "--state"):
        for verbose in ((), ("--verbose",)):
            arguments = ("--describe", "--group", GROUP, what, *verbose)
            pair.same("consumer-groups", *AT, *arguments, of=_lines)
    pair.same("consumer-groups", *AT, "--delete", "--group", GROUP, of=_lines)


def test_unknown_groups(pair: Pair) -> None:
    pair.same("consumer-groups", *AT, "--describe", "--group", "unknown", of=_lines)
    pair.same("consumer-groups", *AT, "--delete", "--group", "unknown", of=_lines)


@pytest.mark.mission("SHR-7")
def test_share_groups(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool makes a group by a reset, since there is nobody who reads; our verb prints what it
    prints."""

    def same(*arguments: str) -> str:
        text = pair.same("share-groups", *AT, *arguments, of=_lines)
        capsys.readouterr()
        given = with_places(pair.ours, [*AT, *arguments])
        if not {"--execute", "--delete", "--delete-offsets"} & set(arguments):
            main.main(["share-groups", *given])
            assert _lines(normalised(pair.ours, capsys.readouterr().out)) == _lines(text)
        return text

    reset = ("--reset-offsets", "--group", "sharers", "--topic", f"{TOPIC}:0,1")
    same(*reset, "--to-earliest", "--dry-run")
    same(*reset, "--to-latest", "--execute")
    assert "sharers" in same("--list")
    same("--list", "--state")
    same("--list", "--state", "stable")
    for what in ("--offsets", "--state"):
        for verbose in ((), ("--verbose",)):
            same("--describe", "--group", "sharers", what, *verbose)
    all_topics = ("--reset-offsets", "--group", "sharers", "--all-topics")
    same(*all_topics, "--to-datetime", "2020-01-01T00:00:00.000", "--dry-run")
    same("--delete-offsets", "--group", "sharers", "--topic", TOPIC, "--topic", "unknown")
    same("--delete-offsets", "--group", "sharers", "--topic", TOPIC)
    same("--describe", "--group", "sharers")
    same("--delete", "--group", "sharers", "--group", "unknown")
    same("--delete-offsets", "--group", "sharers", "--topic", TOPIC)


@pytest.mark.mission("SHR-8")
def test_settings_of_a_group(pair: Pair) -> None:
    group = ("--entity-type", "groups", "--entity-name", "tuned")
    session = "share.session.timeout.ms"
    pair.same("configs", *AT, *group, "--alter", "--add-config", f"{session}=50000", of=_lines)
    pair.same("configs", *AT, *group, "--alter", "--add-config", f"{session}=1", of=_lines)
    pair.same("configs", *AT, *group, "--describe", of=_lines)
    pair.same("configs", *AT, *group, "--describe", "--all", of=_lines)
    pair.same("configs", *AT, "--entity-type", "groups", "--describe", of=_lines)
    pair.same("configs", *AT, *group, "--alter", "--delete-config", session, of=_lines)
