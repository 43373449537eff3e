"""Cluster features beside brokers of Apache Kafka, which support none with ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.features import supported_features
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.mixed_cluster import OURS, START_LIMIT_S, MixedCluster
from tests.support.cluster.real_cluster import run_verb
from tests.support.cluster.tool_jvm import ToolJvm

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

SUPPORTED = supported_features(("classic", "consumer"))
NEWEST_LEVELS = {name: {"max_version_level": levels.highest} for name, levels in SUPPORTED.items()}
WITH_FEATURES = {1: {"group.coordinator.rebalance.protocols": "classic,consumer"}}


def features(cluster: MixedCluster, *words: str) -> Any:
    return run_verb("features", *words, "--bootstrap-server", cluster.address(1))


@pytest.mark.mission("MIX-5")
def test_a_broker_of_kafka_ends_beside_a_finalized_feature(mixed: Mixed) -> None:
    with mixed(OURS, own=WITH_FEATURES, more_brokers=1) as cluster:
        assert cluster.znode("/feature")["features"] == NEWEST_LEVELS
        cluster.kinds[2] = NEWEST
        cluster.restart_broker(2)
        assert cluster._processes[2].wait(START_LIMIT_S) != 0
        log = (cluster.home("broker-2") / "log").read_text()
        assert (
            "FinalizedFeatureCache update failed since feature compatibility checks failed" in log
        )
        assert cluster.znode("/brokers/ids/2") is None

        named = [word for name in SUPPORTED for word in ("--feature", name)]
        assert features(cluster, "disable", *named).returncode == 0
        cluster.restart_broker(2)
        cluster.until_ready()
        cluster.make_controller(1)
        refused = features(cluster, "upgrade", "--feature", "group.version=1")
        assert refused.stdout == (
            "Could not upgrade group.version to 1. Could not apply finalized feature update "
            "because brokers were found to have incompatible versions for the feature.\n"
        )
        cluster.make_controller(2)
        refused = features(cluster, "upgrade", "--feature", "group.version=1")
        assert refused.stdout == (
            "Could not upgrade group.version to 1. Could not apply finalized feature update "
            "because the provided feature is not supported.\n"
        )
        assert cluster.znode("/feature")["features"] == {}


@pytest.mark.mission("MIX-5")
@pytest.mark.parametrize(("kind", "protocol"), [("2.8.2", "2.8"), (NEWEST, "3.8")])
def test_brokers_of_kafka_read_the_registration_of_a_broker_with_features(
    mixed: Mixed, kind: str, protocol: str
) -> None:
    """Kafka 2.8 reads no registration that has a lowest level of 0."""
    properties = {"inter.broker.protocol.version": protocol}
    with mixed(OURS, kind, properties=properties, own=WITH_FEATURES) as cluster:
        registered = cluster.znode("/brokers/ids/1")["features"]
        assert registered == {
            name: {"min_version": 1, "max_version": levels.highest}
            for name, levels in SUPPORTED.items()
        }
        cluster.make_controller(2)
        cluster.create_topic("t", [1, 2])
        assert cluster.znode("/feature")["features"] == {}


@pytest.mark.mission("MIX-5")
def test_kafka_features_and_our_verb_print_the_same(mixed: Mixed, tools: ToolJvm) -> None:
    with mixed(OURS, own=WITH_FEATURES) as cluster:
        server = ("--bootstrap-server", cluster.address(1))
        for words, status in (
            (("describe",), 0),
            (("downgrade", "--feature", "group.version=0", "--dry-run"), 0),
            (("upgrade", "--feature", "group.version=1"), 1),
            (("upgrade", "--feature", "group.version=2", "--feature", "x=1"), 1),
            (("disable", "--feature", "x"), 1),
        ):
            ours = features(cluster, *words)
            theirs = tools.run(cluster, "features", *server, *words)
            assert (ours.returncode, theirs.status) == (status, status)
            assert ours.stdout == theirs.out
        words = ("disable", "--feature", "group.version")
        removed = tools.run(cluster, "features", *server, *words)
        assert (removed.status, removed.out) == (0, "group.version was disabled.\n")
        assert "group.version" not in cluster.znode("/feature")["features"]
