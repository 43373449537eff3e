"""A cluster in a dictionary for each test of the controller's state machines."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.controller.request_batch import BrokerRequest
from tests.support.controller.controller_states import Cluster, NewBroker, Summary, broker


@pytest.fixture
def cluster() -> Cluster:
    """Brokers 1, 2 and 3 are live."""
    return Cluster().brokers(1, 2, 3)


@pytest.fixture
def new_cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def new_broker() -> NewBroker:
    return broker


@pytest.fixture
def summary() -> Summary:
    """What requests say, in short: (kind, broker, {partition: the gist})."""

    def gist(request: BrokerRequest) -> tuple[str, int, dict[str, Any]]:
        message: Any = request.message
        kind = type(message).__name__.removesuffix("Request")
        partitions: dict[str, Any] = {}
        for topic in message.topic_states:
            for state in topic.partition_states:
                name = f"{topic.topic_name}-{state.partition_index}"
                if kind == "StopReplica":
                    partitions[name] = (state.leader_epoch, state.delete_partition)
                elif kind == "LeaderAndIsr":
                    partitions[name] = (state.leader, tuple(state.isr), state.is_new)
                else:
                    partitions[name] = (state.leader, tuple(state.isr))
        return kind, request.broker_id, partitions

    return lambda requests: [gist(request) for request in requests]
