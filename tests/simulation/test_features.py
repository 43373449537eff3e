"""Features of a cluster from its start on: in force, removed, refused, in force again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.client import Admin
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.features import (
    FEATURES,
    GROUP_VERSION,
    FeatureUpdate,
    Levels,
    UpgradeType,
)
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import SimCluster

CLASSIC = {"group.coordinator.rebalance.protocols": "classic"}
SUPPORTED = {feature.name: feature.levels for feature in FEATURES}
NEWEST = {name: levels.highest for name, levels in SUPPORTED.items()}
DONE: Mapping[str, KafkaError | None] = dict.fromkeys(SUPPORTED)
ON = [FeatureUpdate(name, level, UpgradeType.UPGRADE) for name, level in NEWEST.items()]
OFF = [FeatureUpdate(name, 0, UpgradeType.SAFE_DOWNGRADE) for name in SUPPORTED]


def znode(cluster: SimCluster, path: str) -> Any:
    return json.loads(cluster.simulation.zookeeper.tree.get(path)[0])


def levels(cluster: SimCluster) -> Mapping[int, int]:
    """Return the level of group.version that is in force at each broker."""
    return {
        broker_id: node._features.level(GROUP_VERSION)
        for broker_id, node in cluster.nodes().items()
    }


async def until_levels(cluster: SimCluster, **expected: int) -> None:
    wanted = {int(name.removeprefix("at_")): level for name, level in expected.items()}
    await cluster.until(f"levels are {wanted}", lambda: levels(cluster) == wanted)


@pytest.mark.mission("MIX-5")
def test_a_feature_counts_while_all_brokers_support_it() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start(1, 2)
        await until_levels(cluster, at_1=1, at_2=1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            found = await admin.describe_features()
            assert found.supported == SUPPORTED
            assert (found.finalized, found.epoch) == (NEWEST, 0)

            cluster.own[3] = CLASSIC
            cluster.start(3)
            end = await cluster.end_of(3)
            assert isinstance(end, ConfigError)
            assert "does not support features that the cluster has finalized: group.version=1" in (
                str(end)
            )

            assert await admin.update_features(OFF) == DONE
            await cluster.bring_up(3)
            await until_levels(cluster, at_1=0, at_2=0, at_3=0)
            assert znode(cluster, paths.broker_id(3))["features"] == {}
            refused = (await admin.update_features(ON))[GROUP_VERSION]
            assert isinstance(refused, KafkaError)
            assert "brokers were found to have incompatible versions" in str(refused)

            del cluster.own[3]
            await cluster.stop(3)
            await cluster.bring_up(3)
            assert await admin.update_features(ON, validate_only=True) == DONE
            assert set(levels(cluster).values()) == {0}
            assert await admin.update_features(ON) == DONE
            await until_levels(cluster, at_1=1, at_2=1, at_3=1)

    SimCluster(5, (1, 2, 3)).run(play)


@pytest.mark.mission("MIX-5")
@pytest.mark.parametrize(
    ("settings", "supported"),
    [(CLASSIC, {}), ({"inter.broker.protocol.version": "3.8"}, SUPPORTED)],
)
def test_no_feature_is_in_force_where_brokers_of_kafka_may_come(
    settings: Mapping[str, str], supported: Mapping[str, Levels]
) -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 2)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            found = await admin.describe_features()
        assert (found.supported, found.finalized, found.epoch) == (supported, {}, 0)

    SimCluster(6, (1, 2), settings).run(play)
