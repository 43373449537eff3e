"""Three brokers that are killed and stopped under load; what Kafka's nodes say of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.load import Load
from tests.support.cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    """The shared cluster with every broker up; dead brokers are restarted after the test."""
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


@pytest.mark.mission("CEL-2", "CEL-14", "CDU-4", "CDU-6")
def test_the_nodes_are_those_of_kafka(whole: RealCluster) -> None:
    whole.create_topic("nodes", partitions=2)
    controller = whole.znode("/controller")
    assert controller["version"] in (1, 2)
    assert controller["brokerid"] in whole.broker_ids
    assert controller["timestamp"].isdigit()
    with whole.zk() as zk:
        assert zk.exists("/controller").ephemeralOwner
        assert int(zk.get("/controller_epoch")[0]) >= 1
        assert zk.exists("/brokers/ids/1").ephemeralOwner
    broker = whole.znode("/brokers/ids/1")
    port = int(whole.any_broker.rpartition(":")[2])
    assert broker["version"] == 5
    assert broker["endpoints"] == [f"PLAINTEXT://127.0.0.1:{port}"]
    assert broker["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT"}
    assert (broker["host"], broker["port"]) == ("127.0.0.1", port)
    topic = whole.znode("/brokers/topics/nodes")
    assert topic["version"] == 3
    assert sorted(topic["partitions"]) == ["0", "1"]
    assert sorted(topic["partitions"]["0"]) == whole.broker_ids
    state = whole.state("nodes")
    assert sorted(state) == ["controller_epoch", "isr", "leader", "leader_epoch", "version"]
    assert state["leader"] == topic["partitions"]["0"][0]
    assert (state["leader_epoch"], state["version"]) == (0, 1)
    assert whole.znode("/config/topics/nodes") == {
        "version": 1,
        "config": {"min.insync.replicas": "1"},
    }


@pytest.mark.mission("DEL-1", "CDU-5", "CRD-3")
def test_a_deleted_topic_leaves_nothing_behind(whole: RealCluster) -> None:
    whole.create_topic("doomed", partitions=2)
    with Load(whole.bootstrap, "doomed"):
        pass
    until(lambda: all((whole.data(b) / "doomed-0").is_dir() for b in whole.broker_ids), "dirs")
    whole.topics("delete", "--topic", "doomed")
    with whole.zk() as zk:
        until(lambda: not zk.exists("/brokers/topics/doomed"), "topic node gone")
        until(lambda: not zk.exists("/admin/delete_topics/doomed"), "deletion node gone")
        until(lambda: not zk.exists("/config/topics/doomed"), "config node gone")
    homes = [whole.data(broker_id) for broker_id in whole.broker_ids]
    until(lambda: not any(list(home.glob("doomed*")) for home in homes), "no directory is left")
    whole.create_topic("doomed", partitions=1)
    with Load(whole.bootstrap, "doomed") as load:
        load.finish()


@pytest.mark.mission("CRD-3", "PSM-9", "OPS-3")
def test_a_leader_killed_under_load_loses_nothing(whole: RealCluster) -> None:
    whole.create_topic("killed")
    whole.until_isr("killed", 0, whole.broker_ids)
    before = whole.state("killed")
    victim = before["leader"]
    with Load(whole.bootstrap, "killed") as load:
        whole.end_broker(victim, signal.SIGKILL)
        until(lambda: whole.state("killed")["leader"] not in (victim, -1), "another leads", 60)
        load.until_more()
        after = whole.state("killed")
        assert after["leader_epoch"] > before["leader_epoch"]
        assert after["controller_epoch"] == whole.znode("/controller_epoch")
        said = whole.log(whole.znode("/controller")["brokerid"])
        assert re.search(r"Selected new leader and ISR .* for offline partition killed-0", said)
        whole.until_isr("killed", 0, [b for b in whole.broker_ids if b != victim])
        whole.restart_broker(victim)
        whole.until_isr("killed", 0, whole.broker_ids)
        load.until_more()
        load.finish()


@pytest.mark.mission("CEL-6", "CEL-17", "CEL-14", "CRD-3")
def test_a_killed_controller_is_replaced(whole: RealCluster) -> None:
    whole.create_topic("before-failover")
    victim = whole.znode("/controller")["brokerid"]
    with whole.zk() as zk:
        epoch = int(zk.get("/controller_epoch")[0])
        whole.end_broker(victim, signal.SIGKILL)
        until(
            lambda: (whole.znode("/controller") or {}).get("brokerid") not in (None, victim),
            "another controller",
            60,
        )
        assert int(zk.get("/controller_epoch")[0]) > epoch
    whole.create_topic("after-failover", replication_factor=2)
    survivors = [b for b in whole.broker_ids if b != victim]
    assert sorted(whole.znode("/brokers/topics/after-failover")["partitions"]["0"]) == survivors
    with Load(whole.bootstrap, "after-failover") as load:
        load.finish()


@pytest.mark.mission("CSH-1", "CSH-3", "CSH-8", "CRD-7")
def test_a_broker_moves_its_leaderships_before_it_stops(whole: RealCluster) -> None:
    whole.create_topic("handed", partitions=3)
    whole.until_whole()
    leaving = whole.state("handed")["leader"]
    with Load(whole.bootstrap, "handed") as load:
        whole.end_broker(leaving, signal.SIGTERM)
        # The controlled shutdown moved it before the process ended, not a session expiry.
        for partition in range(3):
            state = whole.state("handed", partition)
            assert state["leader"] not in (leaving, -1)
            assert leaving not in state["isr"]
        assert whole.znode(f"/brokers/ids/{leaving}") is None
        assert (whole.data(leaving) / ".kafka_cleanshutdown").exists()
        load.until_more()
        mark = len(whole.log(leaving))
        whole.restart_broker(leaving)
        whole.until_whole()
        load.finish()
    log = whole.log(leaving)[mark:]
    assert "recover" not in log.lower(), "a clean start recovers nothing"


@pytest.mark.mission("CSH-13", "CFO-5")
def test_a_stopping_controller_runs_its_own_controlled_shutdown_first(
    whole: RealCluster,
) -> None:
    whole.create_topic("self-handed", partitions=3)
    leaving = whole.znode("/controller")["brokerid"]
    (led,) = [p for p in range(3) if whole.state("self-handed", p)["leader"] == leaving]
    mark = len(whole.log(leaving))
    with whole.zk() as zk, Load(whole.bootstrap, "self-handed", led) as load:
        epoch = int(zk.get("/controller_epoch")[0])
        whole.end_broker(leaving, signal.SIGTERM)
        for partition in range(3):
            state = whole.state("self-handed", partition)
            assert state["leader"] not in (leaving, -1)
            assert leaving not in state["isr"]
            assert state["controller_epoch"] == epoch, "its own work, not its successor's"
        said = whole.log(leaving)[mark:]
        assert said.index(f"leaving_broker={leaving}") < said.index("controlled_shutdown_succeeded")
        until(lambda: int(zk.get("/controller_epoch")[0]) == epoch + 1, "another controller")
        assert whole.znode("/controller")["brokerid"] != leaving
        load.until_more()
        whole.restart_broker(leaving)
        whole.until_whole()
        load.finish()
