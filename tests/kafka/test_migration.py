"""A cluster under load moves to the other kind, broker by broker, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.kafka.test_kills import loaded
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.real_cluster import run_verb

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

DEFAULT = "3.9-IV0"


def next_broker(cluster: MixedCluster, to: str) -> int:
    """Wait until `minikafka migrate check` says that a broker may be replaced; return its id."""

    def look() -> int | None:
        done = run_verb(
            *("migrate", "check", "--bootstrap-server", cluster.bootstrap, "--to", to),
            *("--zookeeper", cluster.zookeeper, "--json"),
        )
        step = json.loads(done.stdout)["next"]
        if done.returncode != 0 or step["step"] != "replace":
            return None
        return int(step["brokers"][0])

    found = until(look, f"a broker may become {to}", 90)
    assert found is not None
    return found


@pytest.mark.mission("MIX-52")
def test_a_rolling_migration_there_and_back_loses_nothing(mixed: Mixed, tmp_path: Path) -> None:
    """In place: the same ids, ports and data directories, in the order of `migrate check`."""
    properties = {"inter.broker.protocol.version": DEFAULT}
    with (
        mixed(NEWEST, NEWEST, NEWEST, properties=properties) as cluster,
        loaded(cluster, tmp_path) as load,
    ):
        for kind, name in ((OURS, "minikafka"), (NEWEST, "kafka")):
            for _ in cluster.broker_ids:
                load.send()
                broker_id = next_broker(cluster, name)
                cluster.become(broker_id, kind)
                load.until_processed(f"records after broker {broker_id} became {kind}")
            assert set(cluster.kinds.values()) == {kind}
            cluster.elect_preferred_leaders()
            load.send()
            load.until_processed(f"records in a cluster of {kind} alone")
        load.finish()
