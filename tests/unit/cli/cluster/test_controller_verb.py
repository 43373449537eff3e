"""The verb `controller`: what it makes of the controller's answer; the history behind it."""

from __future__ import annotations

import json

import pytest

from minikafka.cli import main
from minikafka.cli.cluster import controller
from minikafka.cli.cluster.controller import tables
from minikafka.core.controller.states import PartitionState, ReplicaState, StateChange
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
)
from minikafka.server.controller.event_history import MAX_TRANSITIONS, EventHistory
from tests.support.world.manual_clock import ManualClock

TP = TopicPartition("t", 3)
LED = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 5, (2, 1)), 7)


def history() -> EventHistory:
    kept = EventHistory(ManualClock())
    kept.event("TopicChange", 3, 10)
    kept.event("TopicChange", 1, 30)
    kept.event("BrokerChange", 0, 0)
    kept.transition(7, StateChange(TP, PartitionState.NEW, PartitionState.ONLINE, LED))
    replica = PartitionAndReplica(TP, 1)
    kept.transition(7, StateChange(replica, ReplicaState.NEW, ReplicaState.ONLINE))
    return kept


def test_the_journal_adds_up() -> None:
    told = history().facts(10)
    assert told["events"] == [
        {
            "event": "BrokerChange",
            "count": 1,
            "total_ms": 0,
            "mean_ms": 0.0,
            "longest_ms": 0,
            "mean_queue_ms": 0.0,
        },
        {
            "event": "TopicChange",
            "count": 2,
            "total_ms": 40,
            "mean_ms": 20.0,
            "longest_ms": 30,
            "mean_queue_ms": 2.0,
        },
    ]
    replica, partition = told["transitions"]  # the newest first
    assert (replica["partition"], replica["replica"], replica["leader"]) == ("t-3", 1, None)
    assert partition["before"], partition["after"] == ("NewPartition", "OnlinePartition")
    assert (partition["leader"], partition["leader_epoch"], partition["isr"]) == (2, 5, [2, 1])


def test_the_journal_is_bounded() -> None:
    kept = EventHistory(ManualClock())
    for _ in range(MAX_TRANSITIONS + 5):
        kept.transition(1, StateChange(TP, PartitionState.ONLINE, PartitionState.OFFLINE))
    assert len(kept.facts(10**6)["transitions"]) == MAX_TRANSITIONS
    assert len(kept.facts(3)["transitions"]) == 3


def test_four_tables() -> None:
    shown = {
        "broker": 1,
        "active": True,
        "controller": 1,
        "epoch": 7,
        "state": "IDLE",
        "queue": 0,
        "brokers": [{"broker": 2, "queue": 4, "troubled": True}],
        **history().facts(10),
    }
    now, brokers, events, transitions = tables(shown)
    assert now[1] == [[1, True, 1, 7, "IDLE", 0]]
    assert brokers[1] == [[2, 4, True]]
    assert events[1][1] == ["TopicChange", 2, 20.0, 30, 40, 2.0]
    assert transitions[1][1][2:] == [
        *("t-3", None, "NewPartition", "OnlinePartition", 2, 5, [2, 1]),
    ]
    for columns, rows in (now, brokers, events, transitions):
        assert all(len(row) == len(columns) for row in rows)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_context_is_json_with_or_without_the_option(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(controller, "find_listener", lambda args: None)
    monkeypatch.setattr(controller, "fetch", lambda *asked: {"context": {"topicIds": {"t": "x"}}})
    words = ["controller", "context", "--bootstrap-server", "h:1", "--broker", "1"]
    assert main.main([*words, *more]) == main.OK
    assert json.loads(capsys.readouterr().out) == {"topicIds": {"t": "x"}}
