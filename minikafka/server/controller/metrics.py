"""The controller's metrics, under Kafka's names. Every broker registers them when it starts."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.states import RATE_AND_TIME_METRICS, ControllerState
from minikafka.kernel.metrics import Histogram, Metrics

UNCLEAN_ELECTIONS = "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec"


class ControllerMetrics:
    """Gauges of the controller context, and a timer for each controller state.

    The context is empty while the broker is not the controller, so the sum of a gauge over all
    brokers is the cluster's value.
    """

    def __init__(self, metrics: Metrics, context: ControllerContext) -> None:
        self._metrics = metrics
        self._context = context
        self._timers: dict[ControllerState, Histogram] = {}

    def register(self, is_active: Callable[[], bool], state: Callable[[], ControllerState]) -> None:
        context = self._context
        gauges: dict[str, Callable[[], float]] = {
            "ActiveControllerCount": lambda: int(is_active()),
            "ControllerState": lambda: int(state()),
            "ActiveBrokerCount": lambda: len(context.brokers),
            "FencedBrokerCount": lambda: 0,  # exists in KRaft only: here a broker is alive or not
            "OfflinePartitionsCount": context.offline_partition_count,
            "PreferredReplicaImbalanceCount": context.preferred_replica_imbalance_count,
            "GlobalTopicCount": lambda: len(context.all_topics),
            "GlobalPartitionCount": lambda: len(context.leadership),
            "TopicsToDeleteCount": lambda: len(context.topics_to_be_deleted),
            "TopicsIneligibleToDeleteCount": lambda: len(context.topics_ineligible_for_deletion),
            "ReplicasToDeleteCount": context.replicas_to_delete_count,
            "ReplicasIneligibleToDeleteCount": context.replicas_ineligible_count,
        }
        for name, read in gauges.items():
            self._metrics.gauge(f"kafka.controller:type=KafkaController,name={name}", read)
        self._metrics.counter(UNCLEAN_ELECTIONS)
        for timed, name in RATE_AND_TIME_METRICS.items():
            self._timers[timed] = self._metrics.histogram(
                f"kafka.controller:type=ControllerStats,name={name}RateAndTimeMs"
            )

    def processed(self, state: ControllerState, took_ms: int) -> None:
        """Add an event of this state to its timer."""
        timer = self._timers.get(state)
        if timer is not None:
            timer.record(took_ms)
