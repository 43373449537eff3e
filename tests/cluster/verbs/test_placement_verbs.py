"""The verbs reassign and elect-leaders on real brokers: plans, moves, cancellations, elections."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
COUNT = 200


@pytest.fixture
def topic(trio: RealCluster) -> str:
    """One partition on brokers a and b of a, b, c, with records."""
    name = f"moved-{uuid.uuid4().hex[:8]}"
    a, b, _ = trio.broker_ids
    trio.topics("create", "--topic", name, "--replica-assignment", f"{a}:{b}")
    lines = "".join(f"{number}\n" for number in range(COUNT))
    done = run_verb(
        *("produce", "--bootstrap-server", trio.bootstrap, "--topic", name), stdin=lines
    )
    assert done.returncode == 0, done.stderr
    return name


def plan(directory: Path, topic: str, *replicas: int) -> str:
    rows = [{"topic": topic, "partition": 0, "replicas": replicas}]
    path = directory / "plan.json"
    path.write_text(json.dumps({"partitions": rows, "version": 1}))
    return str(path)


def registered(trio: RealCluster) -> list[str]:
    with trio.zk() as zk:
        return list(zk.get_children("/brokers/ids"))


def ask(trio: RealCluster, brokers: tuple[int, ...], *words: str) -> Any:
    """Of these brokers only."""
    servers = dict(zip(trio.broker_ids, trio.bootstrap.split(","), strict=True))
    return run_verb("reassign", "--bootstrap-server", servers[brokers[0]], *words)


def wish(zk: KazooClient, topic: str, *replicas: int) -> None:
    """As tools of old wrote it."""
    rows = [{"topic": topic, "partition": 0, "replicas": replicas}]
    data = json.dumps({"version": 1, "partitions": rows}).encode()
    zk.create("/admin/reassign_partitions", data)


def reassign(trio: RealCluster, *words: str) -> Any:
    return run_verb("reassign", "--bootstrap-server", trio.any_broker, *words)


def verified(trio: RealCluster, path: str) -> None:
    verify = ("--verify", "--reassignment-json-file", path)
    until(lambda: reassign(trio, *verify).returncode == 0, "the reassignment is done")


def read(trio: RealCluster, topic: str) -> list[str]:
    done = run_verb(
        *("consume", "--bootstrap-server", trio.bootstrap, "--topic", topic),
        *("--partition", "0", "--from-beginning", "--max-messages", str(COUNT)),
    )
    return str(done.stdout).split()


@pytest.mark.mission("REA-10", "REA-12", "REA-13", "CRS-1", "R-8")
def test_replicas_move_and_go_back(trio: RealCluster, topic: str, tmp_path: Path) -> None:
    a, b, c = trio.broker_ids
    path = plan(tmp_path, topic, c, b)
    done = reassign(trio, "--execute", "--reassignment-json-file", path, "--throttle", "10000000")
    assert (done.returncode, done.stderr) == (0, "")
    throttled = trio.znode(f"/config/topics/{topic}")["config"]
    assert throttled["follower.replication.throttled.replicas"] == f"0:{c}"
    lines = done.stdout.splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert lines[-1] == f"Successfully started partition reassignment for {topic}-0"
    verified(trio, path)
    assert trio.znode(f"/config/topics/{topic}")["config"] == {}
    assert trio.znode(f"/config/brokers/{c}")["config"] == {}
    assert trio.znode(f"/brokers/topics/{topic}")["partitions"] == {"0": [c, b]}
    assert trio.state(topic)["leader"] == c
    assert sorted(trio.state(topic)["isr"]) == sorted([b, c])
    until(lambda: not (trio.data(a) / f"{topic}-0").exists(), "the old log is gone")
    assert (trio.data(c) / f"{topic}-0").exists()
    assert read(trio, topic) == [str(number) for number in range(COUNT)]
    assert f"Replicas: {c},{b}" in trio.topics("describe", "--topic", topic)
    done = reassign(trio, "--list")
    assert done.stdout == "No partition reassignments found.\n"
    back = tmp_path / "back.json"
    back.write_text(lines[2])
    done = reassign(trio, "--execute", "--reassignment-json-file", str(back))
    assert done.returncode == 0, done.stderr
    verified(trio, str(back))
    assert read(trio, topic) == [str(number) for number in range(COUNT)]


@pytest.mark.mission("REA-5")
def test_a_move_to_a_frozen_broker_waits_and_is_given_up(trio: RealCluster, tmp_path: Path) -> None:
    a, b, c = trio.broker_ids
    if trio.znode("/controller")["brokerid"] == c:
        a, c = c, a
    topic = f"frozen-{uuid.uuid4().hex[:8]}"
    trio.topics("create", "--topic", topic, "--replica-assignment", f"{a}:{b}")
    path = plan(tmp_path, topic, c)
    pid = trio.broker_pid(c)
    with trio.zk() as zk:
        os.kill(pid, signal.SIGSTOP)
        wish(zk, topic, c)  # before its session is over: a verb takes its time to start
    try:
        until(lambda: str(c) not in registered(trio), "its session is over")
        done = ask(trio, (a, b), "--verify", "--reassignment-json-file", path)
        assert (done.returncode, done.stdout.splitlines()[1:]) == (
            1,
            [f"Reassignment of partition {topic}-0 is still in progress."],
        )
        done = ask(trio, (a, b), "--list")
        assert done.stdout.splitlines()[1].startswith(f"{topic}-0: replicas: {c},")
        done = ask(trio, (a, b), "--cancel", "--reassignment-json-file", path)
        lines = done.stdout.splitlines()
        assert lines[0] == f"Successfully cancelled partition reassignment for: {topic}-0"
        assert lines[-1] == f"Limits stay on broker {c}, not available now"
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: str(c) in registered(trio), "it is back")
    found = trio.znode(f"/brokers/topics/{topic}")
    assert (found["adding_replicas"], found["removing_replicas"]) == ({}, {})
    trio.until_whole()


@pytest.mark.mission("CDU-1", "REA-1", "REA-12")
def test_a_reassignment_requested_by_znode(trio: RealCluster, topic: str, tmp_path: Path) -> None:
    _, b, c = trio.broker_ids
    with trio.zk() as zk:
        wish(zk, topic, c, b)
        verified(trio, plan(tmp_path, topic, c, b))
        until(lambda: not zk.exists("/admin/reassign_partitions"), "the wish is gone")


def test_a_generated_plan_can_be_executed(trio: RealCluster, topic: str, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    brokers = ",".join(map(str, trio.broker_ids[1:]))
    done = reassign(
        *(trio, "--generate", "--topics-to-move-json-file", str(topics)),
        *("--broker-list", brokers),
    )
    assert (done.returncode, done.stderr) == (0, "")
    head, _, _, title, proposed = done.stdout.splitlines()
    assert head == "Current partition replica assignment"
    assert title == "Proposed partition reassignment configuration"
    path = tmp_path / "proposed.json"
    path.write_text(proposed)
    done = reassign(trio, "--execute", "--reassignment-json-file", str(path))
    assert done.returncode == 0, done.stderr
    verified(trio, str(path))
    replicas = trio.znode(f"/brokers/topics/{topic}")["partitions"]["0"]
    assert sorted(replicas) == sorted(trio.broker_ids[1:])


@pytest.mark.mission("LEL-6", "CDU-2")
def test_the_preferred_leader_is_elected(trio: RealCluster, topic: str, tmp_path: Path) -> None:
    a, b, _ = trio.broker_ids
    path = plan(tmp_path, topic, b, a)  # another order: the leader stays, and is not preferred
    done = reassign(trio, "--execute", "--reassignment-json-file", path)
    assert done.returncode == 0, done.stderr
    verified(trio, path)
    assert trio.state(topic)["leader"] == a
    verb = ("elect-leaders", "--bootstrap-server", trio.any_broker, "--election-type", "preferred")
    one = (*verb, "--topic", topic, "--partition", "0")
    done = run_verb(*one)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-0\n"
    )
    assert trio.state(topic)["leader"] == b
    done = run_verb(*one)
    assert done.stdout == f"Valid replica already elected for partitions {topic}-0\n"
    done = run_verb(*verb, "--topic", "nowhere", "--partition", "0")
    assert done.returncode == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
    partitions = tmp_path / "partitions.json"
    partitions.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    done = run_verb(*verb, "--path-to-json-file", str(partitions))
    assert done.returncode == 0
    done = run_verb(*verb, "--all-topic-partitions")
    assert done.returncode == 0, done.stderr
