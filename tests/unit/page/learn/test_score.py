"""The score of the playground: acknowledged records that a new leader lacks are lost."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.score import Score, Violation
from minikafka.testing.simulator.cluster import LogEvent

PARTITION = TopicPartition("t", 0)
pytestmark = pytest.mark.mission("LEARN-59")


class Cluster:
    """The events of a cluster, and what its score says of them."""

    def __init__(self) -> None:
        self.topic_id = UUID(int=1)
        self.violations: list[Violation] = []
        self.score = Score(lambda topic: self.topic_id, self.violations.append)

    def elect(self, broker: int, epoch: int, end: int, t_s: int) -> None:
        facts: dict[str, Any] = {
            "partition": str(PARTITION), "broker": broker, "leader_epoch": epoch,
            "start_offset": end,
        }  # fmt: skip
        self.score.on_event(LogEvent(float(t_s), "replica_became_leader", facts))

    def acknowledge(self, *offsets: int, t_s: int = 1) -> None:
        for offset in offsets:
            self.score.add(PARTITION, offset, t_s * 1_000_000)


def test_records_that_every_leader_has_are_kept() -> None:
    cluster = Cluster()
    assert cluster.score.kept_us(5_000_000) == 0, "nothing was acknowledged yet"
    cluster.elect(1, 0, 0, 0)
    cluster.acknowledge(0, 1, 2)
    cluster.elect(2, 1, 3, 4)
    assert cluster.violations == []
    assert cluster.score.kept_us(9_000_000) == 8_000_000
    facts = cluster.score.facts(9_000_000)
    assert (facts["acknowledged"], facts["lost"]) == (3, 0)


def test_a_leader_without_an_acknowledged_record_stops_the_score() -> None:
    cluster = Cluster()
    cluster.elect(1, 0, 0, 0)
    cluster.acknowledge(0, 1, 2)
    cluster.elect(2, 1, 1, 4)
    [(t_us, facts)] = cluster.violations
    assert t_us == 4_000_000
    assert facts == {
        "kind": "records_lost", "partition": "t-0", "records": 2, "leader": 2, "leader_epoch": 1,
        "first_offset": 1, "last_offset": 2,
    }  # fmt: skip
    cluster.elect(1, 2, 1, 6)
    assert len(cluster.violations) == 1, "a record is lost once"
    assert cluster.score.kept_us(9_000_000) == 3_000_000
    assert cluster.score.facts(9_000_000)["lost"] == 2


def test_of_two_records_with_one_offset_one_is_lost() -> None:
    cluster = Cluster()
    cluster.elect(1, 0, 0, 0)
    cluster.acknowledge(0)
    cluster.elect(2, 1, 1, 2)
    cluster.acknowledge(1, t_s=3)  # by the old leader
    cluster.acknowledge(1, t_s=4)  # by the new one
    [(t_us, facts)] = cluster.violations
    assert (t_us, facts["kind"], facts["first_offset"]) == (4_000_000, "records_lost", 1)


def test_an_epoch_has_one_leader() -> None:
    cluster = Cluster()
    cluster.elect(1, 3, 0, 0)
    cluster.elect(1, 3, 0, 1)
    assert cluster.violations == []
    cluster.elect(2, 3, 0, 2)
    assert [violation.facts["kind"] for violation in cluster.violations] == ["two_leaders"]


def test_a_topic_that_was_deleted_loses_nothing() -> None:
    cluster = Cluster()
    cluster.elect(1, 0, 0, 0)
    cluster.acknowledge(0, 1)
    cluster.topic_id = UUID(int=2)
    cluster.elect(2, 0, 0, 3)
    cluster.acknowledge(0, t_s=4)
    assert cluster.violations == []
