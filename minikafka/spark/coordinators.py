"""Blocking calls to the coordinators of consumer groups and of transactional ids."""

from __future__ import annotations

from typing import TypeVar

from minikafka.core.client.calls import CoordinatorCall, CoordinatorKey
from minikafka.core.client.coordinator_calls import find_coordinator
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.spark.cluster import Cluster
from minikafka.spark.missing_acls import READ, WRITE, missing_acl

R = TypeVar("R")


class BlockingCoordinators:
    """Calls to coordinators, which are looked up at the first call and again after a failover."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[CoordinatorKey, int] = {}

    def call(self, call: CoordinatorCall[R]) -> R:
        """Send the request of ``call`` to its coordinator and return the result.

        Retriable errors are retried for ``delivery.timeout.ms``. Raises KafkaError."""

        def attempt() -> R:
            try:
                return self._cluster.call(self._find(call.coordinator), call)
            except KafkaError as error:
                if error.code in LOST_COORDINATOR:
                    self._found.pop(call.coordinator, None)
                writes = isinstance(call.request, AddPartitionsToTxnRequest)
                lacking = missing_acl(error.code, WRITE if writes else READ)
                if not lacking:
                    raise
                raise KafkaError(error.code, f"{error.message}{lacking}") from error

        timeout_ms = self._cluster.options.delivery_timeout_ms
        return self._cluster.retrying(attempt, call.name, timeout_ms)

    def _find(self, key: CoordinatorKey) -> int:
        if key not in self._found:
            node = self._cluster.call_any(find_coordinator(key))
            self._cluster.learn_address(node.id, node.host, node.port)
            self._found[key] = node.id
        return self._found[key]
