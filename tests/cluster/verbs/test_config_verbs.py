"""The verbs configs, topics alter and controller status against real brokers."""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import Any

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
PATIENCE_S = 60


@pytest.fixture
def topic(trio: RealCluster) -> str:
    name = f"set-{uuid.uuid4().hex[:8]}"
    trio.create_topic(name)
    return name


def configs(trio: RealCluster, *words: str) -> Any:
    return run_verb("configs", "--bootstrap-server", trio.bootstrap, *words)


def described(trio: RealCluster, *words: str) -> list[str]:
    done = configs(trio, "--describe", *words)
    assert done.returncode == 0, done.stderr
    return list(done.stdout.splitlines())


def altered(trio: RealCluster, *words: str) -> str:
    done = configs(trio, "--alter", *words)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_settings_of_a_topic(trio: RealCluster, topic: str) -> None:
    given = "retention.ms=7000,cleanup.policy=[delete]"
    told = altered(trio, "--topic", topic, "--add-config", given)
    assert told == f"Completed updating config for topic {topic}.\n"
    own = "DYNAMIC_TOPIC_CONFIG"
    lines = described(trio, "--entity-type", "topics", "--entity-name", topic)
    assert [line.split(", ")[0].rstrip("}") for line in lines] == [
        f"Dynamic configs for topic {topic} are:",
        f"  cleanup.policy=delete sensitive=false synonyms={{{own}:cleanup.policy=delete",
        f"  min.insync.replicas=1 sensitive=false synonyms={{{own}:min.insync.replicas=1",
        f"  retention.ms=7000 sensitive=false synonyms={{{own}:retention.ms=7000",
    ]
    assert lines[1].endswith(", DEFAULT_CONFIG:log.cleanup.policy=delete}")
    everything = described(trio, "--topic", topic, "--all")
    assert everything[0] == f"All configs for topic {topic} are:"
    assert len(everything) > 25
    assert trio.znode(f"/config/topics/{topic}")["config"]["retention.ms"] == "7000"
    altered(trio, "--topic", topic, "--delete-config", "retention.ms,cleanup.policy")
    assert len(described(trio, "--topic", topic)) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--add-config retention.ms=soon", "retention.ms"),
        ("--add-config nonsense=1", "nonsense"),
        ("--delete-config retention.ms", "Invalid config(s): retention.ms"),
    ],
)
def test_refused_with_the_reason(trio: RealCluster, topic: str, words: str, reason: str) -> None:
    done = configs(trio, "--alter", "--topic", topic, *words.split())
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(described(trio, "--topic", topic)) == 2


def test_settings_of_brokers_and_of_all_of_them(trio: RealCluster) -> None:
    """What is set for one broker counts before what is set for all, and that before its file."""
    key = "log.cleaner.backoff.ms"
    first, *others = map(str, trio.broker_ids)
    altered(trio, "--broker-defaults", "--add-config", f"{key}=11000")
    altered(
        trio, "--entity-type", "brokers", "--entity-name", first, "--add-config", f"{key}=12000"
    )
    line = (
        f"  {key}=12000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{key}=12000, "
        f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=11000, DEFAULT_CONFIG:{key}=15000}}"
    )
    assert line in described(trio, "--broker", first)
    default = f"  {key}=11000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=11000"
    assert described(trio, "--broker-defaults")[0] == (
        "Default configs for brokers in the cluster are:"
    )
    for other in others:  # brokers learn of it by the change notification
        until(
            partial(
                lambda o: any(
                    row.startswith(default) for row in described(trio, "--broker", o, "--all")
                ),
                other,
            ),
            f"broker {other} counts by it",
            PATIENCE_S,
        )
    altered(trio, "--broker", first, "--delete-config", key)
    altered(trio, "--broker-defaults", "--delete-config", key)
    assert described(trio, "--broker-defaults") == [
        "Default configs for brokers in the cluster are:"
    ]
    refused = configs(trio, "--alter", "--broker", first, "--add-config", "zookeeper.connect=x:1")
    assert refused.returncode == 1
    assert "zookeeper.connect" in refused.stderr


@pytest.mark.mission("OPS-1", "CDU-4")
def test_a_topic_grows(trio: RealCluster, topic: str) -> None:
    trio.topics("alter", "--topic", topic, "--partitions", "3")
    assert len(trio.znode(f"/brokers/topics/{topic}")["partitions"]) == 3
    a, b, c = trio.broker_ids
    plan = ",".join([f"{a}:{b}:{c}"] * 3 + [f"{c}:{a}:{b}"])
    told = trio.topics(
        *("alter", "--topic", topic, "--partitions", "4", "--replica-assignment", plan)
    )
    assert told == f"Topic {topic} has 4 partitions.\n"
    assert trio.state(topic, 3)["leader"] == c
    for words, status, reason in (
        (("--partitions", "2"), 1, "higher than the requested 2"),
        (("--partitions", "9", "--replica-assignment", plan), 2, "says 4 partitions"),
    ):
        done = run_verb(
            *("topics", "alter", "--bootstrap-server", trio.bootstrap, "--topic", topic, *words)
        )
        assert done.returncode == status
        assert reason in done.stderr
    trio.topics("alter", "--topic", "never-was", "--partitions", "2", "--if-exists")


def test_controller_status_and_history(trio: RealCluster, topic: str) -> None:
    ask = ("controller", "status", "--bootstrap-server", trio.bootstrap)
    shown = json.loads(run_verb(*ask, "--json", "--limit", "1000").stdout)
    assert shown["broker"] == shown["controller"] == trio.znode("/controller")["brokerid"]
    assert (shown["active"], shown["queue"]) == (True, 0)
    assert shown["epoch"] == int(trio.znode("/controller_epoch"))
    assert [row["broker"] for row in shown["brokers"]] == trio.broker_ids
    events = {row["event"]: row for row in shown["events"]}
    assert events["TopicChange"]["count"] >= 1
    changes = [row for row in shown["transitions"] if row["partition"] == f"{topic}-0"]
    led = next(row for row in changes if row["replica"] is None and row["leader"] is not None)
    assert (led["before"], led["after"]) == ("NewPartition", "OnlinePartition")
    text = run_verb(*ask).stdout
    assert text.startswith("broker\tactive\tcontroller\tepoch\tstate\tqueue\n")
    other = next(broker for broker in trio.broker_ids if broker != shown["controller"])
    told = json.loads(run_verb(*ask, "--json", "--broker", str(other)).stdout)
    assert (told["active"], told["epoch"]) == (False, None)
    assert told["controller"] == shown["controller"]


def test_levels_of_a_brokers_loggers(trio: RealCluster) -> None:
    broker = str(trio.broker_ids[0])
    lines = described(trio, "--entity-type", "broker-loggers", "--entity-name", broker)
    assert lines[0] == f"Dynamic configs for broker-logger {broker} are:"
    root = next(line for line in lines if line.startswith("  root="))
    level = root.removeprefix("  root=").split()[0]
    assert root == f"  root={level} sensitive=false synonyms={{}}"
    assert f"  isr={level} sensitive=false synonyms={{}}" in lines
    told = altered(
        trio, "--entity-type", "broker-loggers", "--entity-name", broker,
        "--add-config", "isr=DEBUG,network=ERROR",
    )  # fmt: skip
    assert told == f"Completed updating config for broker-logger {broker}.\n"
    now = described(trio, "--broker-logger", broker)
    assert "  isr=DEBUG sensitive=false synonyms={}" in now
    assert "  network=ERROR sensitive=false synonyms={}" in now
    altered(trio, "--broker-logger", broker, "--delete-config", "isr,network")
    assert described(trio, "--broker-logger", broker) == lines
    for change, reason in (
        ("nobody=INFO", "Invalid broker logger(s): nobody"),
        ("isr=debug", "Cannot set the log level of isr to debug"),
    ):
        refused = configs(trio, "--alter", "--broker-logger", broker, "--add-config", change)
        assert refused.returncode == 1
        assert reason in refused.stderr
        assert refused.stderr.count("\n") == 1
