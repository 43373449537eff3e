"""The last values of the metrics that clients have pushed, as series of Prometheus.

A series has the metric's name with ``_`` for other characters, as OpenTelemetry's own exporters
write it, and ``_total`` behind it if it is a counter: ``org.apache.kafka.consumer.poll.idle.ratio``
is ``org_apache_kafka_consumer_poll_idle_ratio``. Its labels are those of the client, of the
resource and of the value. Other names than those of KIP-714 get ``client_`` before them, so that
no client writes series of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.telemetry.otlp import Labels, Point, PointKind

MAX_CLIENTS: Final = 2_000
MAX_SERIES: Final = 20_000  # of all clients
OF_CLIENT: Final = 500  # series of one client
NAMES_OF_KAFKA: Final = "org_apache_kafka_"
OTHER_NAMES: Final = "client_"

_ILLEGAL = re.compile(r"[^a-z0-9_]")
_LEGAL_LABEL = re.compile(r"[a-z]\w*", re.ASCII)


class PushedSeries(NamedTuple):
    """The name and the labels of a value of a client; those of the client itself are not in it."""

    name: str
    labels: Labels


class Value(NamedTuple):
    is_counter: bool
    value: float


class ReceivedClient:
    """A client's identity as labels, and the last values that it has pushed."""

    __slots__ = ("deadline_ms", "identity", "pushed_ms", "values")

    def __init__(self, identity: Mapping[str, str]) -> None:
        self.identity = identity
        self.values: dict[PushedSeries, Value] = {}
        self.pushed_ms = self.deadline_ms = 0


_Clients: TypeAlias = dict[UUID, ReceivedClient]


class ReceivedMetrics:
    """The values of all clients. If there are too many clients or series, the clients whose last
    push is the oldest are forgotten."""

    def __init__(self) -> None:
        self._clients: _Clients = {}  # the last one pushed last
        self._num_series = 0

    def receive(
        self,
        client_instance_id: UUID,
        identity: Mapping[str, str],
        points: list[Point],
        now_ms: int,
        deadline_ms: int,
    ) -> bool:
        """Set the values of a push, and add its deltas to their counters. A push replaces the one
        before it: gauges that it does not have are forgotten; counters stay, since a client does
        not push a delta of 0. Returns False if points are dropped beyond ``OF_CLIENT`` series.

        ``identity`` are the labels of the client, ``deadline_ms`` is when its values are
        forgotten."""
        client = self._clients.pop(client_instance_id, None)
        self._num_series -= 0 if client is None else len(client.values)
        if client is None:
            client = ReceivedClient(identity)
        client.identity = identity
        client.pushed_ms, client.deadline_ms = now_ms, deadline_ms
        client.values = {s: v for s, v in client.values.items() if v.is_counter}
        taken = [_take(client, point) for point in points]
        if client.values:
            self._clients[client_instance_id] = client
        self._num_series += len(client.values)
        while self._num_series > MAX_SERIES or len(self._clients) > MAX_CLIENTS:
            self._forget(next(iter(self._clients)))
        return all(taken)

    def clients(self, now_ms: int) -> _Clients:
        """Return the clients whose time is not over, and forget the others."""
        for each in [each for each, c in self._clients.items() if c.deadline_ms <= now_ms]:
            self._forget(each)
        return self._clients

    def samples(self, counters: bool, now_ms: int) -> Iterator[tuple[PushedSeries, float]]:
        """Iterate over the values of counters, or of all others, with the labels of their
        clients. Pushes may be received meanwhile."""
        for client in list(self.clients(now_ms).values()):
            own = tuple(client.identity.items())
            for series, value in list(client.values.items()):
                if value.is_counter is counters:
                    yield PushedSeries(series.name, (*own, *series.labels)), value.value

    def _forget(self, client_instance_id: UUID) -> None:
        self._num_series -= len(self._clients.pop(client_instance_id).values)


def _take(client: ReceivedClient, point: Point) -> bool:
    """Set or raise the value of a point. Return False if the client has too many series."""
    is_counter = point.kind is not PointKind.GAUGE
    name = _legal(point.name)
    if not name.startswith(NAMES_OF_KAFKA):
        name = OTHER_NAMES + name
    if is_counter and not name.endswith("_total"):
        name += "_total"
    series = PushedSeries(name, _legal_labels(point.labels, client.identity))
    before = client.values.get(series)
    if before is None and len(client.values) >= OF_CLIENT:
        return False
    value = point.value
    if before is not None and point.kind is PointKind.DELTA:
        value += before.value
    client.values[series] = Value(is_counter, value)
    return True


def _legal_labels(labels: Labels, identity: Mapping[str, str]) -> Labels:
    """Return the labels with legal names, sorted, the first of each name. Leave out labels that the
    client has itself, and empty ones: to Prometheus an empty label is none."""
    kept: dict[str, str] = {}
    for key, value in labels:
        name = _legal(key)
        if value and _LEGAL_LABEL.fullmatch(name) and name not in identity:
            kept.setdefault(name, value)
    return tuple(sorted(kept.items()))


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name.lower())
