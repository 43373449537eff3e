"""A cluster under load moves to the other kind and back: broker by broker in place, or to brokers
that are added."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli import main
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.kafka.test_kills import loaded
from tests.support.cluster.cluster_state import until
from tests.support.cluster.migration_matrix import MATRIX_ROW, matrix_row
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.real_cluster import run_verb
from tests.support.cluster.verify_process import VerifyProcess

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka-migrations")]

DEFAULT = "3.9-IV0"
# Where no broker is killed: a JVM that starts on a busy machine is not heard of for more than four
# seconds, and ends if its session has expired.
PATIENT = {"zookeeper.session.timeout.ms": 18_000}
Record = Callable[[str, object], None]


def next_step(cluster: MixedCluster, *options: str) -> dict[str, Any]:
    """Wait until `minikafka migrate check` calls the next step safe, and return the step."""

    words = ["migrate", "check", "--bootstrap-server", cluster.bootstrap, *options]

    def look() -> dict[str, Any] | None:
        with redirect_stdout(io.StringIO()) as printed:
            status = main.main([*words, "--zookeeper", cluster.zookeeper, "--json"])
        step: dict[str, Any] = json.loads(printed.getvalue())["next"]
        return step if status == 0 and step["step"] != "start" else None

    return until(look, f"a safe step of {options}", 90) or {}


def next_broker(cluster: MixedCluster, *options: str) -> int:
    """Wait until a broker may be replaced, and return its id."""
    step = next_step(cluster, *options)
    assert step["step"] == "replace"
    return int(step["brokers"][0])


@pytest.mark.mission("MIX-52")
def test_a_rolling_migration_there_and_back_loses_nothing(
    mixed: Mixed, tmp_path: Path, record_property: Record
) -> None:
    """In place: the same ids, ports and data directories, in the order of `migrate check`."""
    properties = {"inter.broker.protocol.version": DEFAULT, **PATIENT}
    with (
        mixed(NEWEST, NEWEST, NEWEST, properties=properties) as cluster,
        loaded(cluster, tmp_path) as load,
    ):
        for kind, name in ((OURS, "minikafka"), (NEWEST, "kafka")):
            for _ in cluster.broker_ids:
                load.send()
                broker_id = next_broker(cluster, "--to", name)
                cluster.become(broker_id, kind)
                load.until_processed(f"records after broker {broker_id} became {kind}")
            assert set(cluster.kinds.values()) == {kind}
            cluster.elect_preferred_leaders()
            load.send()
            load.until_processed(f"records in a cluster of {kind} alone")
        row = matrix_row(f"{NEWEST} there and back in place", load.finish())
        record_property(MATRIX_ROW, row)


@pytest.mark.mission("MIX-55")
@pytest.mark.parametrize(
    ("kind", "release", "back"), [("2.8.2", "2.8", True), ("2.0.1", "2.0", False)]
)
def test_a_migration_of_older_kafka_with_a_kill_in_the_middle_loses_nothing(
    mixed: Mixed, tmp_path: Path, record_property: Record, kind: str, release: str, back: bool
) -> None:
    """In place, with the default of the inter-broker protocol of that release. Once a broker is
    replaced, another of those that are to be replaced is killed."""
    properties = {"inter.broker.protocol.version": release}
    targets = {OURS: ["--to", "minikafka"]}
    if back:
        targets[kind] = ["--to", "kafka", "--kafka-version", release]
    with (
        mixed(kind, kind, kind, properties=properties) as cluster,
        VerifyProcess(cluster.bootstrap, tmp_path, "--topic", "verified") as verify,
    ):
        for target, options in targets.items():
            for number in range(len(cluster.kinds)):
                broker_id = next_broker(cluster, *options)
                cluster.become(broker_id, target)
                verify.until_more()
                if number == 0:
                    victim = min(b for b in cluster.kinds if cluster.kinds[b] != target)
                    cluster.end_broker(victim, signal.SIGKILL)
                    verify.until_more()
                    cluster.restart_broker(victim)
                    cluster.until_ready()
            assert set(cluster.kinds.values()) == {target}
        verify.until_more()
        way = "there and back" if back else "there"
        row = matrix_row(f"{kind} {way} in place, killed in it", verify.finish())
        record_property(MATRIX_ROW, row)


@pytest.mark.mission("MIX-56")
def test_a_migration_to_added_brokers_loses_nothing(
    mixed: Mixed, tmp_path: Path, record_property: Record
) -> None:
    """Three brokers of ours join, all partitions are reassigned to them by the plan's file, and the
    official brokers are shut down."""
    options = ("--to", "minikafka", "--way", "add")
    move = tmp_path / "move.json"
    reassign = ("reassign", "--reassignment-json-file", str(move), "--bootstrap-server")
    with (
        mixed(NEWEST, NEWEST, NEWEST, properties=PATIENT, more_brokers=3) as cluster,
        loaded(cluster, tmp_path) as load,
    ):
        old = list(cluster.broker_ids)
        assert next_step(cluster, *options)["step"] == "add"
        added = cluster.add(OURS, OURS, OURS)
        load.send()
        assert next_step(cluster, *options)["step"] == "reassign"
        planned = run_verb(
            *("migrate", "plan", "--bootstrap-server", cluster.bootstrap, *options),
            *("--reassignment-json-file", str(move)),
        )
        assert planned.returncode == 0, planned.stderr
        executed = run_verb(*reassign, cluster.bootstrap, "--execute")
        assert executed.returncode == 0, executed.stdout + executed.stderr
        for _ in old:
            step = next_step(cluster, *options)
            assert step["step"] == "stop"
            cluster.remove(step["brokers"][0])
            load.send()
            load.until_processed(f"records without broker {step['brokers']}")
        assert list(cluster.broker_ids) == list(added)
        assert next_step(cluster, *options)["step"] in ("elect", "done")
        row = matrix_row(f"{NEWEST} there by added brokers", load.finish())
        record_property(MATRIX_ROW, row)
