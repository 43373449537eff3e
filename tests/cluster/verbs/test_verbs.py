"""The verbs of the command line against three brokers: what they print, what they return."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def topic() -> str:
    """An unused name."""
    return f"verbs-{uuid.uuid4().hex[:8]}"


@pytest.mark.mission("OPS-1")
def test_topics_from_creation_to_deletion(trio: RealCluster, topic: str) -> None:
    server = ("--bootstrap-server", trio.any_broker)
    created = run_verb(
        *("topics", "create", *server, "--topic", topic, "--partitions", "2"),
        *("--replication-factor", "3", "--config", "min.insync.replicas=2"),
    )
    assert (created.returncode, created.stdout) == (0, f"Created topic {topic}.\n")
    for partition in (0, 1):
        trio.until_isr(topic, partition, trio.broker_ids)

    assert topic in run_verb("topics", "list", *server).stdout.splitlines()
    listed = json.loads(run_verb("topics", "list", *server, "--json").stdout)
    assert {"topic": topic} in listed

    def text() -> str:
        return str(run_verb("topics", "describe", *server, "--topic", topic).stdout)

    until(lambda: found_whole(text()), "described whole")
    head, *rows = text().splitlines()
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 3"
        # As Kafka does: also what the broker's own configuration says about topics.
        r"\tConfigs: file\.delete\.delay\.ms=500,min\.insync\.replicas=2",
        head,
    )
    for partition, row in enumerate(rows):
        assert re.fullmatch(
            rf"\tTopic: {topic}\tPartition: {partition}\tLeader: [123]"
            r"\tReplicas: [123],[123],[123]\tIsr: [123],[123],[123]",
            row,
        )
    facts = json.loads(run_verb("topics", "describe", *server, "--topic", topic, "--json").stdout)
    assert facts[0]["topic"] == topic
    assert facts[0]["configs"]["min.insync.replicas"] == "2"
    assert [sorted(row["isr"]) for row in facts[0]["partitions"]] == [trio.broker_ids] * 2

    assert run_verb("topics", "delete", *server, "--topic", topic).returncode == 0
    with trio.zk() as zk:
        until(lambda: not zk.exists(f"/brokers/topics/{topic}"), "topic gone")


def found_whole(text: str) -> bool:
    """Whether all replicas are shown as in sync: the broker asked may lag behind ZooKeeper."""
    return [len(isr.split(",")) for isr in re.findall(r"Isr: (\S+)", text)] == [3, 3]


def test_a_failed_verb_prints_its_reason_in_one_line(trio: RealCluster, topic: str) -> None:
    server = ("--bootstrap-server", trio.any_broker)
    trio.create_topic(topic)
    again = run_verb("topics", "create", *server, "--topic", topic)
    assert again.returncode == 1
    assert again.stderr.startswith("minikafka: ")
    assert f"Topic '{topic}' already exists." in again.stderr
    assert len(again.stderr.splitlines()) == 1
    fine = run_verb("topics", "create", *server, "--topic", topic, "--if-not-exists")
    assert fine.returncode == 0
    missing = run_verb("topics", "describe", *server, "--topic", "no-such-topic")
    assert missing.returncode == 1
    assert "no-such-topic" in missing.stderr
    too_many = run_verb(
        *("topics", "create", *server, "--topic", f"{topic}-4", "--replication-factor", "4")
    )
    assert too_many.returncode == 1
    assert "4" in too_many.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create"),
        ("topics", "frobnicate"),
        ("produce", "--topic", "t"),
        ("dump-log",),
        ("no-such-verb",),
        (),
    ],
)
def test_wrong_usage(words: tuple[str, ...]) -> None:
    done = run_verb(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr


def test_records_in_and_out(trio: RealCluster, topic: str) -> None:
    server = ("--bootstrap-server", trio.any_broker)
    trio.create_topic(topic, partitions=2)
    with_keys = ("--property", "parse.key=true", "--property", "key.separator=:")
    sent = run_verb(
        *("produce", *server, "--topic", topic, "--partition", "1", *with_keys),
        stdin="a:one\nb:two\na:three\n",
    )
    assert (sent.returncode, sent.stderr) == (0, "")
    consume = ("consume", *server, "--topic", topic)
    read = run_verb(
        *(*consume, "--from-beginning", "--max-messages", "3"),
        *("--property", "print.key=true", "--property", "key.separator=:"),
    )
    assert (read.returncode, read.stdout) == (0, "a:one\nb:two\na:three\n")
    assert read.stderr == "Processed a total of 3 messages\n"
    later = run_verb(
        *(*consume, "--partition", "1", "--offset", "1", "--max-messages", "2"),
        *("--property", "print.offset=true", "--property", "print.partition=true"),
    )
    assert later.stdout == "Partition:1\tOffset:1\ttwo\nPartition:1\tOffset:2\tthree\n"
    nothing = run_verb(*consume, "--partition", "0", "--offset", "earliest", "--timeout-ms", "500")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    wrong = run_verb(*consume, "--partition", "9", "--from-beginning")
    assert wrong.returncode == 1
    assert "no partition 9" in wrong.stderr


def test_dump_log(trio: RealCluster, topic: str) -> None:
    trio.create_topic(topic, replication_factor=1)
    leader = trio.state(topic)["leader"]
    home = trio.data(leader) / f"{topic}-0"
    server = ("--bootstrap-server", trio.any_broker)
    with_keys = ("--property", "parse.key=true", "--property", "key.separator=:")
    run_verb("produce", *server, "--topic", topic, *with_keys, stdin="k:hello\nk:world\n")
    log = home / "00000000000000000000.log"
    plain = run_verb("dump-log", "--files", str(log))
    assert plain.returncode == 0
    first, second, *batches = plain.stdout.splitlines()
    assert first == f"Dumping {log}"
    assert second == "Log starting offset: 0"
    assert all(
        re.match(r"baseOffset: \d lastOffset: \d count: \d baseSequence: \d ", b) for b in batches
    )
    assert all(line.endswith("isvalid: true") for line in batches)
    assert not any(line.startswith("|") for line in batches)
    printed = run_verb("dump-log", "--files", str(log), "--print-data-log").stdout.splitlines()
    records = [line for line in printed if line.startswith("| ")]
    assert [line.rpartition("key: ")[2] for line in records] == [
        "k payload: hello",
        "k payload: world",
    ]
    deep = run_verb("dump-log", "--files", str(log), "--deep-iteration").stdout
    assert "payload" not in deep
    assert len([line for line in deep.splitlines() if line.startswith("| offset: ")]) == 2
    absent = run_verb("dump-log", "--files", str(home / "00000000000000000099.log"))
    assert absent.returncode == 1
    assert "no such file" in absent.stderr


def test_dump_of_indexes(trio: RealCluster, topic: str) -> None:
    trio.create_topic(topic, replication_factor=1, config="segment.bytes=65536")
    home = trio.data(trio.state(topic)["leader"]) / f"{topic}-0"
    lines = "".join(f"{number:01000}\n" for number in range(200))
    server = ("--bootstrap-server", trio.any_broker)
    assert run_verb("produce", *server, "--topic", topic, stdin=lines).returncode == 0
    index = home / "00000000000000000000.index"
    until(index.exists, "the first segment is full and its index on disk")
    dumped = run_verb("dump-log", "--files", str(index))
    assert re.match(r"offset: \d+ position: \d+$", dumped.stdout.splitlines()[1])
    assert "MISMATCH" not in dumped.stdout
    verified = run_verb("dump-log", "--files", str(index), "--verify-index-only")
    assert (verified.returncode, verified.stdout) == (0, f"Dumping {index}\n")
    sane = run_verb("dump-log", "--files", str(index), "--index-sanity-check")
    assert (sane.returncode, sane.stdout) == (
        0,
        f"Dumping {index}\n{index} passed sanity check.\n",
    )
