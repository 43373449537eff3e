"""The verb `groups` on real brokers: a killed consumer, what the verb prints about it, its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.clients.group_clients import Clients
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
GROUP = TOPIC = "seen"
PARTITIONS = 2


def groups(cluster: RealCluster, *words: str) -> Any:
    return run_verb("groups", words[0], "--bootstrap-server", cluster.bootstrap, *words[1:])


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


@pytest.mark.mission("HB-4", "HB-6", "HB-7")
def test_describe_explains_why_a_killed_consumer_left(trio: RealCluster, tmp_path: Path) -> None:
    trio.create_topic(TOPIC, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": trio.bootstrap})
    for number in range(20):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    with Clients(trio.bootstrap, tmp_path, GROUP, TOPIC) as clients:
        member = clients.start("confluent")
        clients.until_read({str(number) for number in range(20)})

        def lag() -> list[str]:
            return [row[5] for row in rows(groups(trio, "describe", "--group", GROUP).stdout)[1:]]

        until(lambda: lag() == ["0", "0"], "all committed", 60)
        assert GROUP in groups(trio, "list").stdout.split()
        member.kill()

        def state() -> str:
            shown = groups(trio, "describe", "--group", GROUP, "--state", "--verbose")
            return str(shown.stdout)

        told = until(lambda: found if "Empty" in (found := state()) else "", "its end", 60)
    assert "session timed out" in told, "from the debug listener of the coordinator"
    logs = [str(trio.home(f"broker-{broker_id}") / "log") for broker_id in trio.broker_ids]
    life = run_verb("groups", "timeline", "--group", GROUP, *logs)
    of_partition = ("groups_loaded", "coordinator_resigned")
    events = [row[2] for row in rows(life.stdout)[1:] if row[2] not in of_partition]
    assert events == [
        "rebalance_prepared",
        "group_stabilized",
        "assignment_received",
        "member_failed",
        "rebalance_prepared",
        "group_emptied",
    ]
    assert f"in group {GROUP} has failed, removing it from the group" in life.stdout
    segments = trio.data(1).glob("__consumer_offsets-*/*.log")
    dumped = run_verb("dump-log", "--offsets-decoder", "--files", ",".join(map(str, segments)))
    assert dumped.returncode == 0, dumped.stderr
    key = '{"type":"1","data":{"group":"seen","topic":"seen","partition":1}}'
    assert key in dumped.stdout
    done = groups(trio, "delete", "--group", GROUP)
    assert done.stdout == "Deletion of requested consumer groups ('seen') was successful.\n"
    assert groups(trio, "describe", "--group", GROUP).returncode == 1
