"""Which replica a consumer is sent to."""

from __future__ import annotations

import pytest

from minikafka.core.replication.replica_selector import (
    SELECTORS,
    ReplicaView,
    leader_only,
    rack_aware,
)
from minikafka.kernel.settings import REPLICA_SELECTORS

LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "others", "chosen"),
    [
        ("", [(2, "", 100, 0)], 1),  # a consumer that does not say where it is
        ("a", [(2, "a", 100, 0)], 1),
        ("b", [], 1),
        ("b", [(2, "c", 100, 0), (3, None, 100, 0)], 1),
        ("b", [(2, "b", 90, 0), (3, "c", 100, 0)], 2),
        ("b", [(2, "b", 90, 0), (3, "b", 95, 50)], 3),
        ("b", [(2, "b", 95, 20), (3, "b", 95, 50)], 2),
        ("b", [(2, "b", 95, 20), (3, "b", 95, 20)], 3),
    ],
)
def test_the_nearest_that_is_furthest_ahead(
    rack: str, others: list[tuple[int, str | None, int, int]], chosen: int
) -> None:
    views = [ReplicaView(*other) for other in others]
    assert rack_aware(rack, LEADER, views).broker_id == chosen
    assert leader_only(rack, LEADER, views) is LEADER


def test_the_names_are_those_of_kafka_s_classes() -> None:
    assert set(SELECTORS) == set(REPLICA_SELECTORS)
