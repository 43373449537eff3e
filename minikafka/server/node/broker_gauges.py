"""The gauges of a broker as a whole: its state, how idle it is, its connections."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from minikafka.kernel.metrics import MetricKind, Metrics, tag_value
from minikafka.kernel.ports import Clock
from minikafka.server.listeners.connected_clients import UNKNOWN
from minikafka.server.listeners.server import Server
from minikafka.server.zookeeper.session import ZkSession

IDLE_OVER_MS = 60_000
RATE_OVER_MS = 60_000
MAX_SOFTWARE = 100  # whose connections are shown, of each listener
_ACCEPTOR = "kafka.network:type=Acceptor,name=AcceptorBlockedPercent"
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


class RateOverMinute:
    """How much a number that only grows has grown a second, over the last minute or a little more.
    It has to be read now and then; the first reading is 0."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: deque[tuple[int, float]] = deque()  # at most one for each second

    def __call__(self, total: float) -> float:
        now_ms, marks = self._clock.monotonic_ms(), self._marks
        if not marks or now_ms - marks[-1][0] >= 1_000:
            marks.append((now_ms, total))
        while len(marks) > 1 and marks[1][0] <= now_ms - RATE_OVER_MS:
            marks.popleft()
        since_ms, before = marks[0]
        return (total - before) * 1_000 / (now_ms - since_ms) if now_ms > since_ms else 0.0


class ConnectionGauges:
    """Kafka's ``socket-server-metrics`` of each listener. Rates are those over a minute."""

    def __init__(self, clock: Clock, servers: Callable[[], Sequence[Server]]) -> None:
        self._clock = clock
        self._servers = servers
        self._rates: dict[str, RateOverMinute] = {}  # by the name of the gauge

    def counts(self) -> Iterator[tuple[str, float]]:
        for server in self._servers():
            mbean = f"{_SOCKETS},listener={server.listener_name},networkProcessor=0"
            count, accepted = server.connection_count, server.accepted_count
            yield f"{mbean}:connection-count", count
            for kind, total in (("creation", accepted), ("close", accepted - count)):
                name = f"{mbean}:connection-{kind}-rate"
                rate = self._rates.setdefault(name, RateOverMinute(self._clock))
                yield name, rate(total)
            # An accepted connection never waits for a network thread.
            yield f"{_ACCEPTOR},listener={server.listener_name}", 0.0

    def of_software(self) -> Iterator[tuple[str, float]]:
        """Yield how many connections the clients of each software have (KIP-511)."""
        for server in self._servers():
            found: Counter[tuple[str, str]] = Counter()
            for client, connections in server.clients.by_software().items():
                found[client.name or UNKNOWN, client.version or UNKNOWN] += connections
            for (name, version), connections in found.most_common(MAX_SOFTWARE):
                tags = f"clientSoftwareName={tag_value(name)},clientSoftwareVersion="
                tags += f"{tag_value(version)},listener={server.listener_name},networkProcessor=0"
                yield f"{_SOCKETS},{tags}:connections", connections


def register_broker_gauges(
    metrics: Metrics,
    idle: IdleShare,
    state: Callable[[], BrokerLifecycle],
    servers: Callable[[], Sequence[Server]],
    zookeeper: ZkSession,
    clock: Clock,
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

    def session_changes() -> Iterator[tuple[str, float]]:
        for name, count in zookeeper.counts.items():
            yield f"kafka.server:type=SessionExpireListener,name={name}", count

    connections = ConnectionGauges(clock, servers)
    metrics.family(connections.counts)
    metrics.family(connections.of_software)
    metrics.family(session_changes, MetricKind.COUNTER)
