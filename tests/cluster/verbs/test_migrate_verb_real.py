"""The verb `migrate` on real brokers: exit status of check, stopped brokers, the controller."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def safe_topic(trio: RealCluster) -> Iterator[str]:
    """A topic that may lose a replica. Afterwards the trio is whole again."""
    name = f"safe-{uuid.uuid4().hex[:8]}"
    trio.create_topic(name, config="min.insync.replicas=2")
    trio.until_whole()
    yield name
    trio.until_whole()


def migrate(trio: RealCluster, action: str, *words: str) -> Any:
    options = ("--bootstrap-server", trio.bootstrap, "--to", "kafka", "--zookeeper", trio.zookeeper)
    return run_verb("migrate", action, *options, *words)


def accept_others(trio: RealCluster, topic: str) -> tuple[str, ...]:
    """Accept what topics of other tests with one replica cause, and features: the trio is
    shared."""
    found = json.loads(migrate(trio, "check", "--json").stdout)["findings"]
    assert all(topic not in finding["text"] for finding in found)
    names = {finding["finding"] for finding in found} & {"under-min-isr", "finalized-features"}
    return tuple(word for name in sorted(names) for word in ("--accept", name))


@pytest.mark.mission("MIX-37")
def test_check_tells_whether_a_broker_may_be_stopped(trio: RealCluster, safe_topic: str) -> None:
    accepted = accept_others(trio, safe_topic)
    done = migrate(trio, "check", *accepted)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nsafe: Stop broker " in f"\n{done.stdout}"
    name = f"strict-{uuid.uuid4().hex[:8]}"
    trio.create_topic(name, config="min.insync.replicas=3")
    trio.until_whole()
    done = migrate(trio, "check", "--json")
    shown = json.loads(done.stdout)
    assert (done.returncode, shown["safe"], shown["next"]["step"]) == (1, False, "replace")
    (finding,) = [row for row in shown["findings"] if f"{name}-0" in row["text"]]
    assert finding["finding"] == "under-min-isr"
    trio.topics("delete", "--topic", name)
    assert migrate(trio, "check", "--accept", "all").returncode == 2


@pytest.mark.mission("MIX-37")
def test_a_stopped_broker_is_started_once_its_directory_is_clean(
    trio: RealCluster, safe_topic: str
) -> None:
    plan = json.loads(migrate(trio, "plan", "--json").stdout)
    assert [row["kind"] for row in plan["brokers"]] == ["minikafka"] * 3
    replaced = [row["brokers"][0] for row in plan["steps"] if row["step"] == "replace"]
    assert sorted(replaced) == trio.broker_ids
    assert replaced[-1] == plan["controller"]
    directory = str(trio.data(replaced[0]))
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, 1)):
        trio.end_broker(replaced[0], number)
        until(lambda: replaced[0] not in registered(trio), "the registration is gone")
        accepted = ("--accept", "finalized-features")
        done = migrate(trio, "check", "--log-dirs", directory, "--json", *accepted)
        shown = json.loads(done.stdout)
        assert shown["next"]["step"] == "start"
        assert shown["next"]["brokers"] == replaced[:1]
        names = [row["finding"] for row in shown["findings"]]
        assert ("unclean-shutdown" in names, done.returncode) == (status == 1, status), done.stdout
        trio.restart_broker(replaced[0])
        trio.until_whole()


def registered(trio: RealCluster) -> list[int]:
    with trio.zk() as client:
        return [int(name) for name in client.get_children("/brokers/ids")]


@pytest.mark.mission("MIX-36")
def test_the_controller_is_moved(trio: RealCluster, safe_topic: str) -> None:
    broker_id = next(b for b in trio.broker_ids if b != trio.znode("/controller")["brokerid"])
    words = ("move-controller", "--zookeeper", trio.zookeeper, "--broker", str(broker_id))
    done = run_verb("migrate", *words, limit_s=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"broker {broker_id} is the controller, after ")
    assert trio.znode("/controller")["brokerid"] == broker_id
