"""On a Spark cluster of several workers: processes of its and a broker die during a stream."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from scripts.lib.cluster import Cluster as ClusterOfProcesses
from scripts.lib.spark_standalone import Standalone, parent_of, until
from tests.spark.kafka_side import committed, numbered, produce
from tests.support.clients.places import PROCESSES, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-jobs")]

JOB = Path(__file__).with_name("cluster_job.py")
RECORDS = 30_000


@pytest.fixture
def leader_killed(processes: ClusterOfProcesses) -> Iterator[Callable[[str], None]]:
    """A function that kills the leader of a topic's first partition. It is started again at the
    end, and in sync before the next test."""
    admin = AdminClient({"bootstrap.servers": processes.bootstrap})
    dead: dict[int, str] = {}

    def kill(topic: str) -> None:
        dead[admin.list_topics(topic, timeout=60).topics[topic].partitions[0].leader] = topic
        processes.kill_broker(next(iter(dead)))

    def is_back(topic: str) -> bool:
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
        return all(len(each.isrs) == len(each.replicas) for each in partitions)

    yield kill
    for broker, topic in dead.items():
        processes.restart_broker(broker)
        until(lambda: is_back(topic))  # noqa: B023


@pytest.mark.parametrize("cluster", [PROCESSES], indirect=True)
@pytest.mark.mission("SPK-6", "SPK-4", "SPF-1")
def test_an_executor_a_broker_and_a_python_worker_die_and_nothing_is_lost_or_doubled(
    java_home: Path,
    cluster: Cluster,
    leader_killed: Callable[[str], None],
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A submitted batch, and a stream of six batches that take their time. One executor dies with
    its Python workers, then the broker to which a task is about to write, then one Python worker:
    each while it is busy. Spark runs the tasks again.
    """
    source, target, backfill = make_topic(3), make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, RECORDS), linger_ms=20)
    busy = tmp_path / "busy"
    with Standalone(tmp_path, java_home) as spark:
        topics = (source, target, backfill)
        job = spark.submit(JOB, cluster.bootstrap, *topics, str(tmp_path / "state"), str(busy))

        def busy_worker() -> int:
            busy.unlink(missing_ok=True)
            until(lambda: busy.exists() or job.poll() is not None)
            return int(busy.read_text())

        executor = parent_of(parent_of(busy_worker()))  # above it: the daemon that forks workers
        os.kill(executor, signal.SIGKILL)
        until(lambda: "Lost executor" in spark.log_of("submit"))
        busy_worker()
        leader_killed(target)
        os.kill(busy_worker(), signal.SIGKILL)
        status = job.wait(300)
        log = spark.log_of("submit")
    assert status == 0, log[-4000:]
    assert log.rstrip().endswith("done")
    assert "ExecutorLostFailure" in log
    assert "Python worker exited unexpectedly" in log
    assert committed(cluster.bootstrap, backfill) == list(range(RECORDS))
    assert committed(cluster.bootstrap, target) == list(range(RECORDS))
