"""Verbs in the form of Kafka's tools, and the controller's context, against real brokers."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.mark.mission("OPS-1", "CTX-2")
def test_topics_are_printed_as_by_kafka_topics_and_match_the_controllers_context(
    trio: RealCluster,
) -> None:
    topic = f"form-{uuid.uuid4().hex[:8]}"
    server = ("--bootstrap-server", trio.any_broker)
    made = run_verb(
        "topics",
        *server,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--replication-factor",
        "3",
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, f"Created topic {topic}.\n", "")
    for partition in (0, 1):
        trio.until_isr(topic, partition, trio.broker_ids)
    described = run_verb("topics", "--describe", "--topic", topic, *server)
    assert (described.returncode, described.stderr) == (0, "")
    assert described.stdout == run_verb("topics", "describe", "--topic", topic, *server).stdout
    assert described.stdout.startswith(f"Topic: {topic}\tTopicId: ")
    assert topic in run_verb("topics", "--list", *server).stdout.splitlines()

    shown = run_verb("controller", "context", *server)
    assert (shown.returncode, shown.stderr) == (0, "")
    context = json.loads(shown.stdout)
    assert context["partitionStates"][f"{topic}-0"] == "OnlinePartition"
    known = context["partitionLeadershipInfo"][f"{topic}-1"]["leader_and_isr"]
    assert known["leader"] == trio.state(topic, 1)["leader"]
    assert context["liveBrokerIdsUnderlying"] == trio.broker_ids

    refused = run_verb("topics", "--zookeeper", trio.zookeeper, "--describe", "--topic", topic)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--bootstrap-server" in refused.stderr
    assert run_verb("topics", "--delete", "--topic", topic, *server).returncode == 0
