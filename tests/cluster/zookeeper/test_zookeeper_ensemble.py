"""Brokers on an ensemble of three ZooKeepers, of which one is lost, then a second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster.real_cluster import RealCluster
from tests.support.cluster.verify_process import VerifyProcess
from tests.support.zookeeper.ensemble import SERVERS, running_ensemble

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

SETTINGS = ("zookeeper.session.timeout.ms=4000", "replica.lag.time.max.ms=3000")


def test_one_of_three_is_not_missed_and_without_two_the_data_path_goes_on(tmp_path: Path) -> None:
    with (
        running_ensemble(tmp_path / "ensemble") as ensemble,
        RealCluster(
            tmp_path / "brokers", 2, overrides=SETTINGS, zookeeper=ensemble.connect
        ) as cluster,
        VerifyProcess(cluster.bootstrap, tmp_path / "verify") as load,
    ):
        epochs = [cluster.znode(f"/brokers/ids/{b}")["timestamp"] for b in cluster.broker_ids]
        leader = next(n for n in range(SERVERS) if ensemble.mode(n) == "leader")
        ensemble.kill(leader)
        load.until_more()
        others = [n for n in range(SERVERS) if n != leader]
        ensemble.until_serving(*others)
        cluster.create_topic("between", replication_factor=2)
        ensemble.kill(others[0])  # and with it the quorum
        load.until_more(1_000)  # five seconds of it: longer than a session lasts
        ensemble.start(leader)
        ensemble.until_serving(leader, others[1])
        cluster.until_whole()
        cluster.create_topic("afterwards", replication_factor=2)
        load.until_more()
        assert load.finish()["counts"]["in_doubt"] == 0
        assert epochs == [
            cluster.znode(f"/brokers/ids/{b}")["timestamp"] for b in cluster.broker_ids
        ], "no session has ended"
