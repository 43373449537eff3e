"""The last values of what clients have pushed."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.telemetry.otlp import Labels, Point, PointKind
from minikafka.core.telemetry.received import (
    MAX_CLIENTS,
    MAX_SERIES,
    OF_CLIENT,
    PushedSeries,
    ReceivedMetrics,
)

A, B = UUID(int=2), UUID(int=3)
IDENTITY = {"client_instance_id": "a", "client_id": "me"}
NAME = "org.apache.kafka.producer.record.send.total"
SHOWN = "org_apache_kafka_producer_record_send_total"
WITH_ID = tuple(IDENTITY.items())


def values(received: ReceivedMetrics, counters: bool, now_ms: int = 0) -> dict[PushedSeries, float]:
    found = list(received.samples(counters, now_ms))
    assert len(dict(found)) == len(found), "a series is there once"
    return dict(found)


def push(
    received: ReceivedMetrics, *points: Point, client: UUID = A, deadline_ms: int = 100
) -> bool:
    return received.receive(client, IDENTITY, list(points), 0, deadline_ms)


def gauge(name: str, value: float, labels: Labels = ()) -> Point:
    return Point(name, labels, PointKind.GAUGE, value)


@pytest.mark.mission("TEL-6")
def test_deltas_add_up_and_totals_replace() -> None:
    received = ReceivedMetrics()
    for delta in (3, 4.5):
        push(received, Point(NAME, (), PointKind.DELTA, delta), gauge("org.apache.kafka.g", delta))
    assert values(received, counters=True) == {PushedSeries(SHOWN, WITH_ID): 7.5}
    assert values(received, counters=False) == {PushedSeries("org_apache_kafka_g", WITH_ID): 4.5}
    push(received, Point("org.apache.kafka.other", (), PointKind.TOTAL, 9))
    push(received, Point("org.apache.kafka.other", (), PointKind.TOTAL, 8))
    other = PushedSeries("org_apache_kafka_other_total", WITH_ID)
    assert values(received, counters=True) == {PushedSeries(SHOWN, WITH_ID): 7.5, other: 8}
    assert values(received, counters=False) == {}


def test_names_and_labels_are_legal_and_no_series_is_the_brokers() -> None:
    received = ReceivedMetrics()
    labels = (
        ("Node.id", "1"),
        ("node-id", "2"),
        ("client_id", "spoofed"),
        ("__name__", "spoofed"),
        ("1", "x"),
        ("empty", ""),
    )
    push(received, gauge("kafka.server.Leader Count", 1, labels), gauge("client.x", 2))
    assert values(received, counters=False) == {
        PushedSeries("client_kafka_server_leader_count", (*WITH_ID, ("node_id", "1"))): 1,
        PushedSeries("client_client_x", WITH_ID): 2,
    }


@pytest.mark.mission("TEL-5")
def test_clients_are_forgotten_and_series_are_bounded() -> None:
    received = ReceivedMetrics()
    many = [gauge(f"org.apache.kafka.{number}", 1) for number in range(OF_CLIENT + 3)]
    assert not push(received, *many)
    assert len(values(received, counters=False)) == OF_CLIENT
    assert push(received, *many[:2], client=B, deadline_ms=50)
    assert set(received.clients(49)) == {A, B}
    assert set(received.clients(50)) == {A}
    assert values(received, counters=False, now_ms=100) == {}
    for number in range(MAX_CLIENTS + 3):
        push(received, many[0], client=UUID(int=number))
        push(received, client=UUID(int=number + (1 << 90)))  # without values
    assert len(received.clients(0)) == MAX_CLIENTS
    full = MAX_SERIES // OF_CLIENT
    for number in range(full + 1):
        push(received, *many[:OF_CLIENT], client=UUID(int=10 + number))
    assert set(received.clients(0)) == {UUID(int=10 + number) for number in range(1, full + 1)}


POINTS = st.lists(
    st.builds(
        Point,
        st.sampled_from(["a", "A", "a.total", "org.apache.kafka.a", "org.apache.kafka-a"]),
        st.lists(
            st.tuples(
                st.sampled_from(["x", "X", "x_", "client_id", ""]), st.sampled_from(["v", ""])
            ),
            max_size=3,
        ).map(tuple),
        st.sampled_from(PointKind),
        st.integers(0, 9),
    ),
    max_size=6,
)


@given(st.lists(st.tuples(st.sampled_from([A, B]), POINTS), max_size=6))
def test_no_series_is_there_twice(pushes: list[tuple[UUID, list[Point]]]) -> None:
    received = ReceivedMetrics()
    for client, points in pushes:
        received.receive(client, {"client_instance_id": str(client)}, points, 0, 1)
    names = [series for counters in (True, False) for series, _ in received.samples(counters, 0)]
    assert len(set(names)) == len(names)
