"""The files in the log directory of a running broker, as Apache Kafka's own tools see them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from scripts.lib.apache_kafka import NEWEST, java_command
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS
from tests.support.cluster.real_cluster import MINIKAFKA

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

LIMIT_S = 120.0
TOPIC = "t"


def output_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def abort_transaction(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "x", "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"aborted", partition=0)
    producer.flush(LIMIT_S)
    producer.abort_transaction(LIMIT_S)


@pytest.mark.mission("MIX-21")
def test_dump_log_reads_and_checks_the_active_indexes_of_a_running_broker(mixed: Mixed) -> None:
    with mixed(OURS, properties={"transaction.state.log.replication.factor": 1}) as cluster:
        cluster.create_topic(TOPIC, [1])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, "linger.ms": 0})
        for _ in range(200):
            producer.produce(TOPIC, bytes(1000), partition=0)
            producer.flush(LIMIT_S)
        abort_transaction(cluster.bootstrap)
        segment = cluster.data(1) / f"{TOPIC}-0" / "00000000000000000000"
        files = {end: Path(f"{segment}.{end}") for end in ("index", "timeindex", "txnindex")}

        def written() -> bool:
            return all(path.exists() and path.stat().st_size for path in files.values())

        until(written, "the active segment has its index files")
        sizes = {"index": 8, "timeindex": 12, "txnindex": 34}
        assert all(files[end].stat().st_size % size == 0 for end, size in sizes.items())
        tool = java_command(NEWEST, "kafka.tools.DumpLogSegments")
        for end, path in files.items():
            for check in ([], ["--verify-index-only"], ["--index-sanity-check"]):
                if end == "txnindex" and check:
                    continue  # Kafka has no such check of a transaction index
                arguments = ["--files", str(path), *check]
                official = output_of([*tool, *arguments])
                assert "mismatch" not in official.lower()
                if check == ["--index-sanity-check"]:
                    assert f"{path} passed sanity check." in official
                elif not check:
                    assert "offset" in official.lower()
                    assert output_of([*MINIKAFKA, "dump-log", *arguments]) == official
        assert all(path.exists() for path in files.values())
