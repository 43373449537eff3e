"""A real broker with two log directories: described, a replica moved, one lost, retention."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    home = tmp_path_factory.mktemp("log-dirs")
    overrides = (
        f"log.dirs={home}/a,{home}/b",
        "log.initial.task.delay.ms=200",
        "log.retention.check.interval.ms=200",
        "log.segment.delete.delay.ms=200",
        "replica.high.watermark.checkpoint.interval.ms=200",
    )
    with RealCluster(home, brokers=1, overrides=overrides) as running:
        yield running


def described(cluster: RealCluster, topic: str) -> dict[str, dict[str, Any]]:
    """By directory, as kafka-log-dirs prints it."""
    done = run_verb(
        "log-dirs", "--describe", "--bootstrap-server", cluster.bootstrap, "--topic-list", topic
    )
    assert done.returncode == 0, done.stderr
    head, received, text = done.stdout.splitlines()
    assert head == "Querying brokers for log directories information"
    assert received == "Received log directory information from brokers 1"
    found = json.loads(text)
    assert (found["version"], [row["broker"] for row in found["brokers"]]) == (1, [1])
    return {Path(row["logDir"]).name: row for row in found["brokers"][0]["logDirs"]}


def produce(cluster: RealCluster, topic: str, *values: str) -> Any:
    words = ("produce", "--bootstrap-server", cluster.bootstrap, "--topic", topic)
    return run_verb(*words, stdin="".join(f"{value}\n" for value in values))


def consumed(cluster: RealCluster, topic: str, *until: str) -> list[str]:
    done = run_verb(
        *("consume", "--bootstrap-server", cluster.bootstrap, "--topic", topic),
        *("--from-beginning", *until),
    )
    return list(done.stdout.splitlines())


def test_a_replica_is_moved_by_another_client(one: RealCluster) -> None:
    one.create_topic("moved", partitions=2, replication_factor=1)
    values = [f"value-{n}" for n in range(500)]
    assert produce(one, "moved", *values).returncode == 0
    before = described(one, "moved")
    assert [before[name]["error"] for name in "ab"] == [None, None]
    homes = {row["partition"]: name for name in "ab" for row in before[name]["partitions"]}
    assert sorted(homes) == ["moved-0", "moved-1"]
    assert sorted(homes.values()) == ["a", "b"]
    target = "b" if homes["moved-0"] == "a" else "a"
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    answer = admin.alter_replica_log_dirs({("moved", 0, 1): str(one.home(target))})
    assert [error.errno for error in answer.values()] == [0]

    def there() -> bool:
        rows = described(one, "moved")[target]["partitions"]
        return [(r["partition"], r["isFuture"]) for r in rows] == [
            ("moved-0", False),
            ("moved-1", False),
        ]

    until(there, "moved")
    assert (one.home(target) / "moved-0").is_dir()
    (found,) = admin.describe_log_dirs(brokers=[1])
    assert {row["error_code"] for row in found["log_dirs"]} == {0}
    admin.close()
    assert sorted(consumed(one, "moved", "--max-messages", "500")) == sorted(values)


def test_retention_by_size(one: RealCluster) -> None:
    config = "retention.bytes=1400"
    one.topics(
        *("create", "--topic", "kept", "--partitions", "1", "--replication-factor", "1"),
        *("--config", config, "--config", "segment.bytes=1000"),
    )
    for number in range(4):
        assert produce(one, "kept", f"{number}" * 600).returncode == 0
    (home,) = [path for name in "ab" if (path := one.home(name) / "kept-0").is_dir()]
    until(lambda: 0 < len(list(home.glob("*.log"))) < 4, "segments went")
    until(lambda: not list(home.glob("*.deleted")), "files went")
    left = consumed(one, "kept", "--timeout-ms", "10000")
    assert left == [f"{number}" * 600 for number in range(4 - len(left), 4)]
    assert 2 <= len(left) < 4


def test_a_lost_directory_takes_its_partitions_and_no_others(one: RealCluster) -> None:
    one.topics(
        *("create", "--topic", "lost", "--partitions", "6", "--replication-factor", "1"),
        *("--config", "segment.bytes=1000"),
    )
    rows = described(one, "lost")
    lies = {int(r["partition"][5:]): name for name in "ab" for r in rows[name]["partitions"]}
    home = lies[0]
    kept = [partition for partition in lies if lies[partition] != home]
    assert kept
    one.home(home).rename(one.home("gone"))
    words = ("produce", "--bootstrap-server", one.bootstrap, "--topic", "lost")

    # High watermarks are written several times a second here, which finds it out. A description
    # before that finds no directory either, but fails none.
    until(lambda: "log_directory_failed" in one.log(1), "the directory is known to be lost")
    assert described(one, "lost")[home] == {
        "logDir": str(one.home(home)),
        "error": "KAFKA_STORAGE_ERROR",
        "partitions": [],
    }
    until(lambda: one.state("lost", 0)["leader"] == -1, "no leader")
    assert one.state("lost", kept[0])["leader"] == 1
    assert run_verb(*words, "--partition", str(kept[0]), stdin="y\n").returncode == 0
    with one.zk() as zk:
        until(lambda: not zk.get_children("/log_dir_event_notification"), "notification taken up")
    one.end_broker(1, signal.SIGTERM)
    one.home("gone").rename(one.home(home))
    one.restart_broker(1)
    until(lambda: one.state("lost", 0)["leader"] == 1, "leader again")
    until(lambda: described(one, "lost")[home]["error"] is None, "described again")
    assert run_verb(*words, "--partition", "0", stdin="z\n").returncode == 0
