"""Gives internal topics the replicas for which there were too few brokers at first."""

from __future__ import annotations

from minikafka.controller.leaving import LeavingReplicas
from minikafka.controller.reassignment import Reassignments
from minikafka.controller.tools import Tools
from minikafka.core.controller.events import ApiPartitionReassignment
from minikafka.core.controller.internal_replicas import missing_replicas


class InternalTopics:
    """Looks whenever brokers or topics have come, a reassignment may have ended, and after a
    failover; not before the dead have left the ISRs. Kafka has no such thing: it waits with the
    creation. Raises ``ControllerMoved``."""

    def __init__(
        self, tools: Tools, reassignments: Reassignments, leaving: LeavingReplicas
    ) -> None:
        self._context = tools.context
        self._factors = tools.config.internal_replication_factors
        self._reassignments = reassignments
        self._leaving = leaving
        self._log = tools.log

    async def widen(self) -> None:
        if self._leaving:
            return
        targets = missing_replicas(self._context, self._factors)
        if not targets:
            return
        topics = sorted({partition.topic for partition in targets})
        replicas = max(len(replicas) for replicas in targets.values())
        self._log.info(
            "internal_topics_widened", topics=topics, partitions=len(targets), replicas=replicas
        )
        results = await self._reassignments.on_api(ApiPartitionReassignment(targets))
        refused = {str(tp): str(error) for tp, error in results.items() if error is not None}
        if refused:
            self._log.warning("internal_topics_not_widened", refused=refused)
