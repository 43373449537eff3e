"""Brokers of ours beside older Kafka, with its ``inter.broker.protocol.version``."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, START_LIMIT_S

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

RECORDS = 50


@pytest.mark.mission("MIX-13")
@pytest.mark.parametrize(
    ("kind", "protocol"), [("2.8.2", "2.6"), ("2.8.2", "2.8"), ("3.9.1", "2.6"), ("2.0.1", "2.0")]
)
@pytest.mark.parametrize("controller", [1, 3], ids=["theirs", "ours"])
def test_a_follower_of_an_older_leader_returns_to_the_isr(
    mixed: Mixed, kind: str, protocol: str, controller: int
) -> None:
    """Brokers 1 and 2 are Kafka's, 1 leads; 3 is ours and misses some records."""
    properties = {"inter.broker.protocol.version": protocol}
    with mixed(kind, kind, OURS, properties=properties) as cluster:
        cluster.make_controller(controller)
        cluster.create_topic("t", [1, 2, 3])
        cluster.end_broker(3)
        until(lambda: cluster.state("t", 0)["isr"] == [1, 2], "3 has left the ISR", 60)
        producer = Producer({"bootstrap.servers": cluster.address(1), "log_level": 0})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        cluster.restart_broker(3)
        until(
            lambda: sorted(cluster.state("t", 0)["isr"]) == [1, 2, 3],
            "3 is in the ISR",
            START_LIMIT_S,
        )
        log = (cluster.home("broker-3") / "log").read_text()
        assert "UNKNOWN_TOPIC_ID" not in log
        assert "UNSUPPORTED_VERSION" not in log
