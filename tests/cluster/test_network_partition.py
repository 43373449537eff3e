"""A broker is cut off from the others and from ZooKeeper; clients reach it still."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.cluster.cluster_state import until
from tests.support.cluster.namespaces import SpacedCluster, spaced_cluster, why_not
from tests.support.cluster.verify_process import VerifyProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

TOPIC = "watched"
SETTINGS = (
    "zookeeper.session.timeout.ms=3000",
    "zookeeper.connection.timeout.ms=30000",
    "replica.lag.time.max.ms=3000",
)


def states(cluster: SpacedCluster, but_not: int | None = None) -> list[tuple[int, list[int]]]:
    """Leader and ISR of each partition, as brokers that are not cut off know them."""
    asked = [
        address
        for broker_id, address in zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True)
        if broker_id != but_not
    ]
    admin = AdminClient({"bootstrap.servers": asked[0], "log_level": 0})
    topics = admin.list_topics(TOPIC, timeout=30).topics
    return [(p.leader, sorted(p.isrs)) for p in topics[TOPIC].partitions.values()]


@pytest.mark.mission("PRD-6", "CRD-3")
def test_a_leader_that_is_cut_off_promises_nothing(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with spaced_cluster(tmp_path, 3, SETTINGS) as cluster:
        load = VerifyProcess(cluster.bootstrap, tmp_path / "verify", "--topic", TOPIC)
        with load:
            everybody = cluster.broker_ids
            until(lambda: all(isr == everybody for _, isr in states(cluster)), "whole", 60)
            victim = states(cluster)[0][0]
            others = [b for b in everybody if b != victim]
            cluster.wires.pull(f"broker-{victim}")
            until(
                lambda: all(
                    leader in others and isr == others
                    for leader, isr in states(cluster, but_not=victim)
                ),
                "the others go on without it",
                60,
            )
            load.until_more()
            cluster.wires.plug(f"broker-{victim}")
            until(lambda: all(isr == everybody for _, isr in states(cluster)), "whole again", 60)
            load.until_more()
            load.finish()
