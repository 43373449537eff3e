"""The tools of Kafka 4.2 print the same about a broker of ours as about one of Kafka in KRaft."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.cli import main
from minikafka.network.channel import Channel
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    Topology,
)
from minikafka.protocol.messages.streams_topology import KeyValue, Subtopology, TopicInfo
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.kraft_broker import KAFKA_4, kraft_broker
from tests.support.cluster.cluster_state import until
from tests.support.cluster.group_conversation import GroupConversation
from tests.support.cluster.kafka_tools import OneBroker, ToolOutput, normalised, with_places
from tests.support.cluster.tool_jvm import ToolJvm, tool_jvm

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.mission("MIX-41")]

AT = ("--bootstrap-server", "{bootstrap}")
GROUP, TOPIC = "readers", "t"
STREAMS_GROUPS = "steps", "stairs"
RELEASES = ("3.9", "4.0-IV1", "4.0.1", "4.1", "4.2-IV0")
MISSING = {StatusCode.MISSING_SOURCE_TOPICS, StatusCode.MISSING_INTERNAL_TOPICS}
# Features of KRaft, and of replicas that only it has.
OF_KRAFT = ("metadata.version", "kraft.version", "eligible.leader.replicas.version")


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
    """Two brokers that no other file uses: the tools list all that there is."""
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


def test_features_of_releases(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """Our verb maps releases as the tool does, without the features of KRaft."""

    def known(text: str) -> list[str]:
        lines = [line.strip() for line in text.splitlines()]
        return sorted(line for line in lines if not line.startswith(OF_KRAFT))

    for words in (
        *(("version-mapping", *("--release-version", version)) for version in RELEASES),
        ("version-mapping",),
        ("feature-dependencies", "--feature", "group.version=1", "--feature", "share.version=0"),
        ("feature-dependencies", "--feature", "group.version=9"),
        ("feature-dependencies", "--feature", "x=1"),
    ):
        official = pair.jvm.run(pair.official, "features", *AT, *words)
        main.main(["features", *with_places(pair.ours, [*AT, *words])])
        printed = capsys.readouterr()
        assert known(printed.out) == known(official.out)
        assert official.err.strip().rstrip(".") in printed.err


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


async def make_streams_groups(address: str) -> None:
    """Make two groups with internal topics and committed offsets, which have lost their members."""
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        for group in STREAMS_GROUPS:
            talk = GroupConversation(channel, group, {"source": 2, "other": 1, f"{group}-extra": 1})
            await talk.begin()
            internal = f"{group}-by-word-repartition", f"{group}-counts-changelog"
            topology = Topology(0, [Subtopology("0", ["source"]), counting(*internal)])
            topology.subtopologies[0].repartition_sink_topics = [internal[0]]
            beat = StreamsGroupHeartbeatRequest(group, "m1", 0, topology=topology, process_id="p")
            beat.rebalance_timeout_ms = 60_000
            beat.active_tasks = beat.standby_tasks = beat.warmup_tasks = []
            for _ in range(200):
                if not MISSING & {row.status_code for row in (await talk.request(beat, 0)).status}:
                    break
                await asyncio.sleep(0.1)
            await talk.request(StreamsGroupHeartbeatRequest(group, "m1", -1), 0)
            rows = [OffsetCommitRequestPartition(partition, 2) for partition in range(2)]
            topics = [
                OffsetCommitRequestTopic(name, partitions=rows) for name in ("source", internal[0])
            ]
            await talk.request(OffsetCommitRequest(group, -1, "", topics=topics), 9)
    finally:
        channel.close()


def counting(repartition: str, changelog: str) -> Subtopology:
    topic = TopicInfo(changelog, 0, 1, [KeyValue("cleanup.policy", "compact")])
    return Subtopology("1", [], [], [topic], [], [TopicInfo(repartition, 2)])


def _streams_lines(text: str) -> list[str]:
    """Return the lines with one name for both groups, and without what stands for an error's class
    and for that of a partition."""
    text = text.replace(STREAMS_GROUPS[1], STREAMS_GROUPS[0])
    text = re.sub(r"(?<=due to: )java\S+: ", "", text)
    return _lines(re.sub(r"(?<=\S) +Error: .*", " Error", text))


@pytest.mark.mission("STR-12")
def test_streams_groups(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool resets and deletes a group, and our verb another one: both print the same."""
    for place in (pair.ours, pair.official):
        asyncio.run(make_streams_groups(place.bootstrap))
        producer = Producer({"bootstrap.servers": place.bootstrap})
        for _ in range(3):
            producer.produce("source", b"v", partition=0)
        assert producer.flush(30) == 0
    capsys.readouterr()

    def same(line: str) -> str:
        text = pair.same("streams-groups", *AT, *line.split(), of=_streams_lines)
        words = line.replace(STREAMS_GROUPS[0], STREAMS_GROUPS[1]).split()
        main.main(["streams-groups", *with_places(pair.ours, [*AT, *words])])
        printed = normalised(pair.ours, "".join(capsys.readouterr()))
        assert _streams_lines(printed) == _streams_lines(text), line
        return text

    for scenario in (
        "--input-topic source:0,1 --to-earliest",
        "--input-topic source --to-latest",
        "--input-topic source:0 --to-offset 1",
        "--input-topic source:0 --shift-by -1",
        "--input-topic other --to-current",
        "--all-input-topics --to-current",
        "--all-input-topics --by-duration PT1H --export",
        "--all-input-topics --to-datetime 2020-01-01T00:00:00.000",
    ):
        same(f"--reset-offsets --group steps {scenario} --dry-run")
    reset = "--reset-offsets --group steps --all-input-topics --to-offset 0 --execute"
    done = same(f"{reset} --delete-internal-topic steps-extra")
    same(f"{reset} --delete-internal-topic steps-extra")
    assert {"steps source 0 0", "steps source 1 0"} < {*_lines(done)}
    same("--describe --group steps --state")
    same("--delete-offsets --group steps --input-topic source:1 --input-topic unknown")
    same("--delete-offsets --group steps --all-input-topics")
    same("--delete-offsets --group nobody --input-topic source")
    assert "internal topics" in same("--delete --group steps --delete-all-internal-topics")
    same("--delete --group steps --group nobody")
