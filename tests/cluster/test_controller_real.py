"""The controller of real brokers: killed, frozen and robbed of its office under load."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.load import Load
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
PATIENCE_S = 90


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    """The shared cluster with every broker up; dead brokers are restarted after the test."""
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


def controller_of(cluster: RealCluster) -> int:
    found = until(lambda: cluster.znode("/controller"), "a controller", PATIENCE_S)
    return int(found["brokerid"])


def epoch_of(cluster: RealCluster) -> int:
    return int(cluster.znode("/controller_epoch"))


def status(cluster: RealCluster, *words: str) -> Any:
    asked = run_verb(
        *("controller", "status", "--bootstrap-server", cluster.bootstrap, "--json", *words)
    )
    return json.loads(asked.stdout) if asked.returncode == 0 else None


def until_one_acts(cluster: RealCluster, brokers: list[int]) -> int:
    """One of these says that it is the controller, the others that it is; who."""

    def one() -> int | None:
        told = [status(cluster, "--broker", str(broker)) for broker in brokers]
        acting = [t["broker"] for t in told if t and t["active"]]
        named = {t["controller"] if t else None for t in told}
        return acting[0] if len(acting) == 1 and named == {acting[0]} else None

    return until(one, f"one controller among {brokers}", PATIENCE_S) or 0


@pytest.mark.mission("CEL-6", "CEL-17", "CRD-3", "CFO-5")
def test_the_controller_is_killed_under_load(whole: RealCluster) -> None:
    """The killed broker is both the controller and the leader of the partition under load."""
    victim, epoch = controller_of(whole), epoch_of(whole)
    others = [broker for broker in whole.broker_ids if broker != victim]
    plan = ":".join(map(str, (victim, *others)))
    whole.topics("create", "--topic", "led-by-it", "--replica-assignment", plan)
    whole.until_isr("led-by-it", 0, whole.broker_ids)
    with Load(whole.bootstrap, "led-by-it") as load:
        whole.end_broker(victim, signal.SIGKILL)
        until(lambda: whole.state("led-by-it").get("leader") in others, "another leads", PATIENCE_S)
        load.until_more(limit_s=PATIENCE_S)
        assert until_one_acts(whole, others) in others
        assert epoch_of(whole) > epoch
        assert whole.state("led-by-it")["controller_epoch"] > epoch
        whole.restart_broker(victim)
        whole.until_isr("led-by-it", 0, whole.broker_ids)
        load.until_more(limit_s=PATIENCE_S)
        load.finish()


@pytest.mark.mission("CEL-16", "CEL-17", "CFO-5")
def test_a_resumed_controller_resigns_and_changes_nothing(
    whole: RealCluster,
) -> None:
    """Pause the controller past its session time-out, change topics, resume it: a zombie."""
    victim, epoch = controller_of(whole), epoch_of(whole)
    others = [broker for broker in whole.broker_ids if broker != victim]
    plan = ":".join(map(str, (*others, victim)))
    whole.topics("create", "--topic", "watched-on", "--replica-assignment", plan)
    whole.until_isr("watched-on", 0, whole.broker_ids)
    with Load(whole.bootstrap, "watched-on") as load:
        pid = whole.broker_pid(victim)
        os.kill(pid, signal.SIGSTOP)
        try:
            until(
                lambda: (whole.znode("/controller") or {}).get("brokerid") in others,
                "another controller",
                PATIENCE_S,
            )
            # Work that waits in the old one's sockets as well as in ZooKeeper.
            with whole.zk() as zk:
                assignment = {"version": 1, "partitions": {"0": others}}
                zk.create("/brokers/topics/made-meanwhile", json.dumps(assignment).encode())
            until(lambda: whole.state("made-meanwhile").get("leader") in others, "led", PATIENCE_S)
            until(lambda: whole.state("watched-on")["isr"] == others, "it is out", PATIENCE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        acting = until_one_acts(whole, whole.broker_ids)
        assert acting in others
        assert epoch_of(whole) > epoch
        whole.until_isr("watched-on", 0, whole.broker_ids)
        for topic in ("watched-on", "made-meanwhile"):
            state = whole.state(topic)
            assert state["controller_epoch"] > epoch
            assert state["leader"] in others
        load.until_more(limit_s=PATIENCE_S)
        load.finish()


@pytest.mark.mission("CEL-4", "CEL-9", "R-1", "R-13")
@pytest.mark.parametrize(
    "data", [None, b"{not JSON", b'{"version":1,"brokerid":77,"timestamp":"1"}']
)
def test_a_deleted_or_overwritten_controller_znode_leads_to_an_election(
    whole: RealCluster, data: bytes | None
) -> None:
    """/controller deleted, garbled, or given to a broker that is none: there is one soon after."""
    epoch = epoch_of(whole)
    controller_of(whole)
    with whole.zk() as zk:
        if data is None:
            zk.delete("/controller")
        else:
            zk.set("/controller", data)
        until(
            lambda: (
                epoch_of(whole) > epoch
                and zk.exists("/controller")
                and zk.get("/controller")[0] != data
            ),
            "a new term",
            PATIENCE_S,
        )
    assert until_one_acts(whole, whole.broker_ids) == controller_of(whole)
    name = f"after-{0 if data is None else len(data)}"
    whole.create_topic(name)
    with Load(whole.bootstrap, name) as load:
        load.finish()


@pytest.mark.mission("CDU-4", "OPS-3")
def test_a_topic_made_by_znodes_alone(whole: RealCluster) -> None:
    """As tools before Kafka 2.8 created topics: no topic id, no configuration."""
    with whole.zk() as zk:
        plan = {"version": 1, "partitions": {"0": whole.broker_ids, "1": whole.broker_ids[::-1]}}
        zk.create("/brokers/topics/by-znode", json.dumps(plan).encode())
    for partition, replicas in ((0, whole.broker_ids), (1, whole.broker_ids[::-1])):
        until(partial(lambda p: whole.state("by-znode", p), partition), "led", PATIENCE_S)
        assert whole.state("by-znode", partition)["leader"] == replicas[0]
    with Load(whole.bootstrap, "by-znode") as load:
        load.finish()
    assert "topic_id" in whole.znode("/brokers/topics/by-znode")
