"""The Java client by its tools: it produces, copies in transactions, and consumes."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from minikafka.aio import Admin
from minikafka.core.client.admin.transactions import TransactionDescription
from scripts.lib.apache_kafka import NEWEST, NoApacheKafka, java_command
from scripts.lib.kraft_broker import KAFKA_4
from tests.support.clients.places import Cluster
from tests.support.cluster.kafka_tools import CLASSES, LIMIT_S, QUIET, TOOL_JVM

pytestmark = [pytest.mark.compat, pytest.mark.kafka]

COUNT = 60


def run(tool: str, *arguments: str, version: str = NEWEST) -> list[str]:
    """Run a tool, which must succeed, and return the lines that it prints."""
    try:
        command = java_command(version, CLASSES[tool], *arguments, jvm=(*TOOL_JVM, QUIET))
    except NoApacheKafka as why:
        pytest.skip(str(why))
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout.splitlines()


def epoch_of(cluster: Cluster, transactional_id: str) -> int:
    async def describe() -> int:
        async with Admin(cluster.bootstrap) as admin:
            found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert isinstance(found, TransactionDescription)
        return found.producer_epoch

    return asyncio.run(describe())


@pytest.mark.mission("IN-96", "TV2-9")
@pytest.mark.parametrize("version", [NEWEST, KAFKA_4])
def test_records_of_a_group_are_copied_in_transactions(
    cluster: Cluster, topic: str, version: str
) -> None:
    """Some transactions are aborted at random and repeated. What they wrote would be read first.
    Kafka 4 uses transactions of version 2: each has its own epoch."""
    at, copy = ("--bootstrap-server", cluster.bootstrap), f"{topic}-copy"
    events = run(
        *("verifiable-producer", *at, "--topic", topic, "--max-messages", str(COUNT)),
        *("--acks", "-1"),
    )
    sent = [each["value"] for line in events if (each := json.loads(line)).get("value")]
    assert len(sent) == COUNT
    run(
        *("transactional-message-copier", "--broker-list", cluster.bootstrap),
        *("--input-topic", topic, "--input-partition", "0", "--output-topic", copy),
        *("--consumer-group", f"g-{topic}"),
        *("--transactional-id", f"tx-{topic}", "--transaction-size", "5"),
        *("--group-mode", "--use-group-metadata", "--enable-random-aborts"),
        version=version,
    )
    assert (epoch_of(cluster, f"tx-{topic}") >= COUNT // 5) is (version == KAFKA_4)
    copied = run(
        *("console-consumer", *at, "--topic", copy, "--group", f"g-{copy}", "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", str(COUNT)),
    )
    assert copied == sent


@pytest.mark.mission("G848-9")
def test_a_consumer_of_kafka_4_reads_in_a_consumer_group(cluster: Cluster, topic: str) -> None:
    at, group = ("--bootstrap-server", cluster.bootstrap), f"g-{topic}"
    run(
        *("verifiable-producer", *at, "--topic", topic, "--max-messages", str(COUNT)),
        *("--acks", "-1"),
    )
    read = run(
        *("console-consumer", *at, "--topic", topic, "--group", group, "--from-beginning"),
        *("--command-property", "group.protocol=consumer", "--max-messages", str(COUNT)),
        version=KAFKA_4,
    )
    assert sorted(map(int, read)) == list(range(COUNT))
    listed = run(
        *("consumer-groups", *at, "--describe", "--group", group, "--state"), version=KAFKA_4
    )
    assert any(group in line and "Empty" in line for line in listed)
