"""The gauges of a broker as a whole: its state, how idle it is, its connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from minikafka.kernel.metrics import MetricKind, Metrics
from minikafka.kernel.ports import Clock
from minikafka.network.server import Server
from minikafka.zookeeper.session import ZkSession

IDLE_OVER_MS = 60_000
_SOCKETS = "kafka.server:type=socket-server-metrics"


class BrokerLifecycle(IntEnum):
    """Kafka's ``BrokerState``, in ZooKeeper mode."""

    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6


class IdleShare:
    """The share of the last minute, or a little more, in which no request handler ran. ``busy_ns``
    returns for how long one has run since the start."""

    def __init__(self, clock: Clock, busy_ns: Callable[[], int]) -> None:
        self._clock = clock
        self._busy_ns = busy_ns
        self._marks = deque([(clock.monotonic_ms(), busy_ns())])  # at most one for each second

    def __call__(self) -> float:
        now_ms, busy_ns = self._clock.monotonic_ms(), self._busy_ns()
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - IDLE_OVER_MS:
            marks.popleft()
        since_ms, busy_before = marks[0]
        if now_ms - marks[-1][0] >= 1_000:
            marks.append((now_ms, busy_ns))
        if now_ms == since_ms:
            return 1.0
        return max(0.0, 1.0 - (busy_ns - busy_before) / ((now_ms - since_ms) * 1_000_000))


def register_broker_gauges(
    metrics: Metrics,
    idle: IdleShare,
    state: Callable[[], BrokerLifecycle],
    servers: Callable[[], Sequence[Server]],
    zookeeper: ZkSession,
) -> None:
    """Register the gauges. One loop does the work of Kafka's request handlers and of its network
    threads, so that both are idle at the same time."""
    metrics.gauge("kafka.server:type=KafkaServer,name=BrokerState", lambda: int(state()))
    pool = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"
    metrics.gauge(pool, idle)
    metrics.gauge("kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent", idle)
    metrics.gauge(
        "kafka.network:type=RequestChannel,name=RequestQueueSize",
        lambda: sum(server.queued_requests()[0] for server in servers()),
    )
    metrics.gauge(
        "kafka.network:type=RequestChannel,name=ResponseQueueSize",
        lambda: sum(server.queued_requests()[1] for server in servers()),
    )

    def connections() -> Iterator[tuple[str, float]]:
        for server in servers():
            mbean = f"{_SOCKETS},listener={server.listener_name},networkProcessor=0"
            yield f"{mbean}:connection-count", server.connection_count

    def session_changes() -> Iterator[tuple[str, float]]:
        for name, count in zookeeper.counts.items():
            yield f"kafka.server:type=SessionExpireListener,name={name}", count

    metrics.family(connections)
    metrics.family(session_changes, MetricKind.COUNTER)
