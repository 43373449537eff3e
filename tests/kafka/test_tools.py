"""Kafka's own tools print the same about brokers of ours as about official ones."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.kafka_tools import ToolOutput, first_line, run_tool
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm, tool_jvm

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.mission("MIX-40")]

AT = ("--bootstrap-server", "{bootstrap}")
PROPERTIES = {"transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3}


@dataclass(frozen=True)
class Pair:
    """Three brokers of ours and three official ones, each with a JVM for tools."""

    ours: MixedCluster
    official: MixedCluster
    jvms: tuple[ToolJvm, ToolJvm]

    def __iter__(self) -> Iterator[MixedCluster]:
        return iter((self.ours, self.official))

    def run(self, tool: str, *arguments: str, stdin: str = "") -> list[ToolOutput]:
        """Run a tool on both, at the same time."""

        def run_on(cluster: MixedCluster, jvm: ToolJvm) -> ToolOutput:
            return jvm.run(cluster, tool, *arguments, stdin=stdin)

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(run_on, self, self.jvms))

    def same(
        self, tool: str, *arguments: str, stdin: str = "", of: Callable[[str], object] = str
    ) -> ToolOutput:
        """Run a tool on both: the exit status and the output must be the same. ``of`` returns what
        is compared of the output. Return the output of the official brokers."""
        ours, official = self.run(tool, *arguments, stdin=stdin)
        assert _compared(ours, of) == _compared(official, of)
        return official

    def settles(self, tool: str, *arguments: str, of: Callable[[str], object] = str) -> ToolOutput:
        """As ``same`` for what is read after a change: it reaches some brokers later than the tool
        that makes it ends, so the tool may run several times."""

        def is_same() -> bool:
            ours, official = self.run(tool, *arguments)
            return _compared(ours, of) == _compared(official, of)

        with contextlib.suppress(AssertionError):
            until(is_same, "both print the same")
        return self.same(tool, *arguments, of=of)

    def until_known(self, topic: str, partitions: int) -> None:
        """Wait until all brokers know so many partitions of a topic, 0 for none."""
        for cluster in self:
            for broker_id in cluster.broker_ids:
                admin = AdminClient({"bootstrap.servers": cluster.address(broker_id)})
                until(
                    partial(_knows, admin, topic, partitions),
                    f"broker {broker_id} knows {partitions} partitions of {topic}",
                )


def _compared(output: ToolOutput, of: Callable[[str], object]) -> tuple[int, object, list[str]]:
    """A tool's own stack is left out: it differs if a response came before it was awaited."""
    errors = [line for line in output.err.splitlines() if not line.startswith("\tat ")]
    return output.status, of(output.out), errors


def _knows(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(timeout=30).topics.get(topic)
    return partitions == (0 if found is None else len(found.partitions))


def lines(text: str) -> list[str]:
    """For output in any order."""
    return sorted(text.splitlines())


@pytest.fixture(scope="module")
def pair(mixed: Mixed, tools: ToolJvm) -> Iterator[Pair]:
    """Both have the topic ``t`` with four records in each of two partitions."""
    with (
        mixed(OURS, OURS, OURS, properties=PROPERTIES) as ours,
        mixed(NEWEST, NEWEST, NEWEST, properties=PROPERTIES) as official,
        tool_jvm() as another,
    ):
        both = Pair(ours, official, (another, tools))
        created = both.same(
            "topics",
            *(*AT, "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1"),
            *("--config", "retention.ms=86400000"),
        )
        assert created.out == "Created topic t.\n"
        for cluster in both:
            for partition in range(2):
                cluster.until_isr("t", partition, [1, 2, 3])
            until(partial(_shows_all, cluster), "all brokers show both partitions")
        for partition in range(2):
            values = "".join(f"{key}:{key}-{partition}\n" for key in "abcd")
            both.same("console-producer", *AT, "--topic", "t", *KEYED, stdin=values)
        yield both


def _shows_all(cluster: MixedCluster) -> bool:
    """Whether each broker knows the leaders of both partitions, or keys would have other places."""
    for broker_id in cluster.broker_ids:
        admin = AdminClient({"bootstrap.servers": cluster.address(broker_id)})
        topic = admin.list_topics("t", timeout=30).topics["t"]
        if sorted(p.leader for p in topic.partitions.values()) != [1, 2]:
            return False
    return True


KEYED = ("--property", "parse.key=true", "--property", "key.separator=:")


@pytest.mark.parametrize("name", ["t", "unknown"])
def test_a_tool_prints_the_same_in_a_process_of_its_own(pair: Pair, name: str) -> None:
    """The other tests run tools in JVMs that they share. The one for ``unknown`` exits with 1."""
    words = ("topics", *AT, "--describe", "--topic", name)
    found = pair.jvms[1].run(pair.official, *words)
    assert found == run_tool(pair.official, *words)
    assert (found.status, name in found.out) == (int(name == "unknown"), True)


def test_topics(pair: Pair) -> None:
    pair.same("topics", *AT, "--list", of=lines)
    described = pair.same("topics", *AT, "--describe", "--topic", "t")
    assert "ReplicationFactor: 3" in described.out
    pair.same("topics", *AT, "--describe", "--under-replicated-partitions")
    pair.same("topics", *AT, "--describe", "--unavailable-partitions", "--topic", "t")
    pair.same("topics", *AT, "--create", "--topic", "t", "--partitions", "2")
    pair.same("topics", *AT, "--create", "--topic", "bad/name", "--partitions", "2")
    pair.same("topics", *AT, "--create", "--topic", "u", "--replication-factor", "9")
    pair.same("topics", *AT, "--create", "--topic", "u", "--config", "retention.ms=soon")
    pair.same("topics", *AT, "--create", "--topic", "u", "--replica-assignment", "1,2")
    pair.until_known("u", 2)
    pair.same("topics", *AT, "--alter", "--topic", "u", "--partitions", "3")
    pair.until_known("u", 3)
    pair.same("topics", *AT, "--alter", "--topic", "u", "--partitions", "1")
    pair.same("topics", *AT, "--delete", "--topic", "u")
    pair.until_known("u", 0)
    pair.same("topics", *AT, "--delete", "--topic", "unknown")


def test_configs(pair: Pair) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "t")
    pair.same("configs", *AT, *topic, "--describe")
    pair.same("configs", *AT, *topic, "--alter", "--add-config", "segment.bytes=1048576")
    pair.same("configs", *AT, *topic, "--alter", "--add-config", "segment.bytes=few")
    pair.same("configs", *AT, *topic, "--alter", "--add-config", "no.such.key=1")
    described = pair.settles("configs", *AT, *topic, "--describe", "--all", of=lines)
    assert "segment.bytes=1048576" in described.out
    pair.same("configs", *AT, *topic, "--alter", "--delete-config", "segment.bytes")
    brokers = ("--entity-type", "brokers")
    pair.same(
        *("configs", *AT, *brokers, "--entity-default", "--alter"),
        *("--add-config", "log.cleaner.threads=2"),
    )
    pair.settles("configs", *AT, *brokers, "--entity-default", "--describe")
    pair.settles("configs", *AT, *brokers, "--entity-name", "1", "--describe")
    pair.same(
        *("configs", *AT, *brokers, "--entity-name", "1", "--alter"),
        *("--add-config", "zookeeper.connect=x:1"),
    )
    client = ("--entity-type", "clients", "--entity-name", "c")
    pair.same("configs", *AT, *client, "--alter", "--add-config", "producer_byte_rate=1000")
    pair.settles("configs", *AT, *client, "--describe")
    pair.same("configs", *AT, "--entity-type", "users", "--describe")
    pair.same("configs", *AT, "--entity-type", "ips", "--describe")


def test_records_and_offsets(pair: Pair) -> None:
    read = pair.same(
        *("console-consumer", *AT, "--topic", "t", "--from-beginning", "--max-messages", "8"),
        *("--property", "print.key=true", "--property", "print.partition=true"),
        *("--timeout-ms", "30000"),
        of=lines,
    )
    assert len(read.out.splitlines()) == 8
    pair.same("get-offsets", *AT, "--topic", "t")
    pair.same("get-offsets", *AT, "--topic", "t", "--time", "earliest")
    pair.same("get-offsets", *AT, "--topic", "unknown")
    for cluster in pair:
        request = '{"version":1,"partitions":[{"topic":"t","partition":0,"offset":1}]}'
        (cluster.directory / "delete.json").write_text(request)
    pair.same("delete-records", *AT, "--offset-json-file", "{home}/delete.json")
    pair.settles("get-offsets", *AT, "--topic", "t", "--time", "earliest")


def test_consumer_groups(pair: Pair) -> None:
    group = ("--group", "g")
    starts, ends = (
        pair.same("get-offsets", *AT, "--topic", "t", "--time", time).out
        for time in ("earliest", "latest")
    )
    pair.same(
        *("console-consumer", *AT, "--topic", "t", *group, "--from-beginning"),
        *("--max-messages", str(_offsets(ends) - _offsets(starts)), "--timeout-ms", "30000"),
        of=lines,
    )
    pair.same("consumer-groups", *AT, "--list", of=lines)
    pair.settles("consumer-groups", *AT, "--list", "--state", of=_columns)
    pair.settles("consumer-groups", *AT, "--describe", *group, of=_columns)
    pair.same("consumer-groups", *AT, "--describe", *group, "--members")
    pair.same("consumer-groups", *AT, "--describe", *group, "--state", of=_state)
    pair.same("consumer-groups", *AT, "--describe", "--group", "unknown")
    pair.same(
        *("consumer-groups", *AT, *group, "--reset-offsets", "--to-earliest"),
        *("--topic", "t", "--execute"),
        of=lines,
    )
    pair.same("consumer-groups", *AT, *group, "--delete-offsets", "--topic", "t", of=lines)
    pair.same("consumer-groups", *AT, *group, "--delete")
    pair.same("consumer-groups", *AT, *group, "--delete")


def _offsets(text: str) -> int:
    """The sum of the offsets of all partitions."""
    return sum(int(line.rpartition(":")[2]) for line in text.splitlines())


def _state(text: str) -> list[list[str]]:
    """State and number of members: which broker is the coordinator is chance."""
    return [line.split()[-2:] for line in text.splitlines()]


def _columns(text: str) -> list[list[str]]:
    """The words of each line, sorted: widths follow the addresses."""
    return sorted(line.split() for line in text.splitlines())


def test_elections_and_reassignments(pair: Pair) -> None:
    for cluster in pair:
        plan = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
        (cluster.directory / "plan.json").write_text(plan)
        topics = '{"version":1,"topics":[{"topic":"t"}]}'
        (cluster.directory / "topics.json").write_text(topics)
    plan_file = ("--reassignment-json-file", "{home}/plan.json")
    pair.same("reassign-partitions", *AT, "--list")
    pair.same("reassign-partitions", *AT, *plan_file, "--execute", "--throttle", "10000000")
    for cluster in pair:
        cluster.until_isr("t", 0, [1, 2])
    pair.settles("reassign-partitions", *AT, *plan_file, "--verify")
    pair.settles("topics", *AT, "--describe", "--topic", "t")
    pair.same("reassign-partitions", *AT, *plan_file, "--cancel")
    elect = ("--election-type", "preferred")
    pair.same("leader-election", *AT, *elect, "--topic", "t", "--partition", "0")
    pair.same("leader-election", *AT, *elect, "--topic", "t", "--partition", "0")
    pair.same("leader-election", *AT, *elect, "--topic", "t", "--partition", "9")
    pair.settles("topics", *AT, "--describe", "--topic", "t")


def test_producers_and_transactions(pair: Pair) -> None:
    count = ("--num-records", "50", "--record-size", "10", "--throughput", "-1")
    pair.same(
        *("producer-perf-test", "--topic", "t", *count, "--transactional-id", "tx"),
        *("--transaction-duration-ms", "100"),
        *("--producer-props", "bootstrap.servers={bootstrap}"),
        of=lambda text: text.split(" records sent")[0],
    )
    pair.settles("transactions", *AT, "list", of=_without_producer)
    pair.settles("transactions", *AT, "describe", "--transactional-id", "tx", of=_without_producer)
    pair.settles(
        *("transactions", *AT, "describe-producers", "--topic", "t", "--partition", "0"),
        of=lambda text: text.splitlines()[0].split(),
    )
    pair.same("transactions", *AT, "find-hanging", "--broker-id", "1")
    pair.same(
        *("verifiable-producer", *AT, "--topic", "t", "--max-messages", "5"),
        of=lambda text: text.count("producer_send_success"),
    )


def _without_producer(text: str) -> list[list[str]]:
    """Columns without the coordinator and the producer id, which are chosen by chance."""
    return [[word for word in line.split() if not word.isdigit()] for line in text.splitlines()]


def test_a_hanging_transaction_is_aborted(pair: Pair) -> None:
    producers = []
    for cluster in pair:
        cluster.create_topic("hanging")
        producers.append(_begin(cluster, "hanging"))
    partition = ("--topic", "hanging", "--partition", "0")
    open_ = pair.settles(*("transactions", *AT, "describe-producers"), *partition, of=_open)
    assert open_.out.split()[-1] == "1"  # where it starts, after another record
    pair.same("transactions", *AT, "abort", *partition, "--start-offset", "0")
    aborted = pair.same("transactions", *AT, "abort", *partition, "--start-offset", "1")
    assert aborted.status == 0
    ended = pair.settles(*("transactions", *AT, "describe-producers"), *partition, of=_open)
    assert ended.out.split()[-1] == "None"
    pair.settles("get-offsets", *AT, "--topic", "hanging")  # with the marker


def _begin(cluster: MixedCluster, topic: str) -> Producer:
    """Write a record, and another one in a transaction, which stays open."""
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    plain.produce(topic, b"before", partition=0)
    assert plain.flush(60) == 0
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"in it", partition=0)
    assert producer.flush(60) == 0
    return producer


def _open(text: str) -> list[str]:
    """For each producer, its epoch and where its transaction starts."""
    return [" ".join(line.split()[1:2] + line.split()[-1:]) for line in text.splitlines()]


def test_consumers_that_measure_and_verify(pair: Pair) -> None:
    verified = pair.same(
        *("verifiable-consumer", *AT, "--topic", "t", "--group-id", "verifying"),
        *("--reset-policy", "earliest", "--max-messages", "5"),
        of=_consumed,
    )
    assert _consumed(verified.out)[0]
    measured = pair.same(
        *("consumer-perf-test", *AT, "--topic", "t", "--messages", "5", "--timeout", "30000"),
        of=_measured,
    )
    assert _measured(measured.out)[1]


def _consumed(text: str) -> tuple[bool, list[str]]:
    """Whether it read at least as many records as it was to, and the names of the events: how many
    records a poll returns is chance."""
    lines = text.replace("<time>", "0").splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    count = sum(each["count"] for each in events if each["name"] == "records_consumed")
    return count >= 5, sorted({each["name"] for each in events})


def _measured(text: str) -> tuple[list[str], bool]:
    """The names of the columns, and whether it read at least as many records as it was to."""
    header, figures = text.splitlines()[-2:]
    names = [name.strip() for name in header.split(",")]
    return names, int(figures.split(",")[names.index("data.consumed.in.nMsg")]) >= 5


def test_replicas_are_verified(pair: Pair) -> None:
    """The tool reads every replica as a consumer, and compares the records."""
    options = ("--broker-list", "{bootstrap}", "--topics-include", "t", "--time", "-2")
    ours, official = (
        first_line(
            cluster,
            *("replica-verification", *options, "--report-interval-ms", "200"),
            *("--max-wait-ms", "100"),
            having="max lag is 0",
        )
        for cluster in pair
    )
    # Producers without keys choose partitions by chance.
    ours, official = (
        re.sub(r".*: |partition t-\d+ |offset \d+", "", each) for each in (ours, official)
    )
    assert ours == official
    assert "among 2 partitions" in ours


def test_delegation_tokens_without_security(pair: Pair) -> None:
    for cluster in pair:
        (cluster.directory / "client.properties").write_text("")
    by = (*AT, "--command-config", "{home}/client.properties")
    refused = pair.same("delegation-tokens", *by, "--create", "--max-life-time-period", "-1")
    assert refused.status != 0
    pair.same("delegation-tokens", *by, "--describe")
    token = ("--hmac", "AAAA")
    pair.same("delegation-tokens", *by, "--renew", "--renew-time-period", "-1", *token)
    pair.same("delegation-tokens", *by, "--expire", "--expiry-time-period", "-1", *token)


def test_the_cluster(pair: Pair) -> None:
    pair.same("cluster", "cluster-id", *AT)
    pair.same("features", *AT, "describe")
    pair.same("broker-api-versions", *AT, of=_apis)
    pair.same("log-dirs", *AT, "--describe", "--topic-list", "t", of=_log_dirs)


def _apis(text: str) -> list[str]:
    """Each broker's versions, without those later than 3.9; the brokers come in any order."""
    newest = {int(key): key.max_version_3_9 for key in ApiKey}
    lines = []
    for line in text.splitlines():
        named = re.match(r"\s*\w+\((\d+)\): ", line)
        if named is not None and newest.get(int(named[1]), 0) is None:
            continue
        found = re.fullmatch(r"\s*(\w+\((\d+)\): 0)(?: to (\d+))?( .*)", line)
        if found is None or int(found[2]) not in newest:
            lines.append(line.strip())
            continue
        last = min(int(found[3] or 0), newest[int(found[2])] or 0)
        lines.append(f"{found[1]} to {last}{found[4]}")
    return sorted(lines)


def _log_dirs(text: str) -> int:
    return text.count('"error":null')


def test_acls_and_quorum_without_security_and_kraft(pair: Pair) -> None:
    pair.same("acls", *AT, "--list")
    pair.same("metadata-quorum", *AT, "describe", "--status")


def test_the_segments_on_disk(pair: Pair) -> None:
    log = "{data}/t-1/00000000000000000000.log"
    dumped = pair.same("dump-log", "--files", log, "--print-data-log", of=_data)
    assert "payload" in dumped.out
    index = "{data}/t-1/00000000000000000000.index"
    pair.same("dump-log", "--files", index, "--index-sanity-check", of=lambda text: None)


def _data(text: str) -> list[str]:
    """The records with keys. Those without are random."""
    return [line[line.index("keySize") :] for line in text.splitlines() if " key: " in line]
