"""The gauges of the group coordinator, under Kafka's names."""

from __future__ import annotations

from minikafka.coordinator.shards import GroupShards
from minikafka.core.group.states import GroupState
from minikafka.kernel.metrics import Metrics

_PREFIX = "kafka.coordinator.group:type=GroupMetadataManager,name="


def register_gauges(shards: GroupShards, metrics: Metrics) -> None:
    def in_state(state: GroupState) -> int:
        return sum(group.state is state for _, group in shards.groups())

    metrics.gauge(f"{_PREFIX}NumGroups", lambda: sum(1 for _ in shards.groups()))
    metrics.gauge(
        f"{_PREFIX}NumOffsets", lambda: sum(len(group.offsets) for _, group in shards.groups())
    )
    for state in GroupState:

        def count(state: GroupState = state) -> int:
            return in_state(state)

        metrics.gauge(f"{_PREFIX}NumGroups{state.value}", count)
