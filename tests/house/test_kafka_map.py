"""docs/reference/kafka-map.md names things that exist."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from minikafka.kernel.ports import WatchEvent, WatchKind
from minikafka.server.controller.watches import event_of
from minikafka.server.zookeeper import paths

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "reference" / "kafka-map.md").read_text()
PACKAGES = [p.name for p in (ROOT / "minikafka").iterdir() if p.is_dir()]
OURS = re.compile(rf"`((?:{'|'.join(PACKAGES)})[./][^`]*)`")
LISTENER = re.compile(r"^\| `([\w.]+)` \| `(/\S+)` \| (.+) \|$", re.MULTILINE)

# What each listener of Kafka 0.8 subscribed to, from its source (ControllerEpochListener and
# friends; `t` stands for a topic). The map is compared with this, not only with itself.
WATCHED_IN_0_8 = {
    ("registerControllerChangedListener", paths.CONTROLLER_EPOCH),
    ("ZookeeperLeaderElector.leaderChangeListener", paths.CONTROLLER),
    ("replicaStateMachine.registerListeners", paths.BROKER_IDS),
    ("partitionStateMachine.registerListeners", paths.TOPICS),
    ("partitionStateMachine.registerListeners", paths.DELETE_TOPICS),
    ("registerPartitionChangeListener", paths.topic("t")),
    ("registerReassignedPartitionsListener", paths.REASSIGN_PARTITIONS),
    ("registerPreferredReplicaElectionListener", paths.PREFERRED_REPLICA_ELECTION),
}
# Names of threads and of their classes that descriptions of Kafka use.
THREADS = {
    "ControllerEventThread",
    "ExpirationReaper-<broker>-<name>",
    "ExpiredOperationReaper",
    "RecordAccumulator",
    "Sender",
    "auto-leader-rebalance-task",
    "kafka-shutdown-hook",
    "partition-rebalance-thread",
}


def test_some_of_our_names_are_found() -> None:
    assert len(OURS.findall(TEXT)) > 20


@pytest.mark.parametrize("name", OURS.findall(TEXT))
def test_a_name_of_ours_exists(name: str) -> None:
    if "/" in name:
        assert list((ROOT / "minikafka").glob(name))
        return
    module, _, last = f"minikafka.{name}".rpartition(".")
    if last[0].isupper():
        assert hasattr(import_module(module), last)
    else:
        assert find_spec(f"{module}.{last}") is not None


@pytest.mark.mission("CDU-13")
def test_the_zookeeper_listeners_of_kafka_0_8_map_to_controller_events() -> None:
    listeners = LISTENER.findall(TEXT)
    assert {(name, path) for name, path, _ in listeners} == WATCHED_IN_0_8
    assert len(listeners) == len(WATCHED_IN_0_8)
    for name, path, told in listeners:
        events = {type(event_of(WatchEvent(kind, path))).__name__ for kind in WatchKind}
        assert events - {"NoneType"} == set(re.findall(r"`(\w+)`", told)), name


def test_no_event_watches_the_controller_epoch() -> None:
    """The map says so: writes check its version instead."""
    for kind in WatchKind:
        assert event_of(WatchEvent(kind, paths.CONTROLLER_EPOCH)) is None


@pytest.mark.mission("OPS-2")
def test_every_thread_name_of_kafka_has_its_place_in_the_map() -> None:
    _, _, section = TEXT.partition("## Threads")
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    named = {name for names, _ in rows for name in re.findall(r"`([^`]+)`", names)}
    assert named >= THREADS
    for names, place in rows:
        assert OURS.search(place), names
