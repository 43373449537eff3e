"""The decoder of what clients push, beside the protobuf library."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.telemetry.otlp import (
    MAX_ATTRIBUTES,
    MAX_FIELDS,
    MAX_POINT_BYTES,
    MAX_POINTS,
    MAX_TEXT,
    Point,
    PointKind,
    Points,
    decode_metrics,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import run_at_once
from tests.support.otlp import MetricsData

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.one_of(
    TEXTS.map(lambda text: {"string_value": text}),
    st.booleans().map(lambda value: {"bool_value": value}),
    INT64.map(lambda value: {"int_value": value}),
    st.floats(allow_nan=False).map(lambda value: {"double_value": value}),
)
ATTRIBUTES = st.lists(st.fixed_dictionaries({"key": TEXTS, "value": VALUES}), max_size=3)
POINTS = st.lists(
    st.tuples(
        ATTRIBUTES,
        st.one_of(
            INT64.map(lambda value: {"as_int": value}),
            st.floats(allow_nan=False).map(lambda value: {"as_double": value}),
        ),
    ).map(lambda pair: {"attributes": pair[0], "time_unix_nano": 5, **pair[1]}),
    max_size=3,
)
DATA = st.one_of(
    POINTS.map(lambda points: {"gauge": {"data_points": points}}),
    st.tuples(POINTS, st.integers(0, 2), st.booleans()).map(
        lambda row: {
            "sum": {
                "data_points": row[0],
                "aggregation_temporality": row[1],
                "is_monotonic": row[2],
            }
        }
    ),
)
METRICS = st.lists(
    st.tuples(TEXTS, DATA).map(lambda pair: {"name": pair[0], "unit": "ms", **pair[1]}), max_size=3
)
PUSHES = st.lists(
    st.tuples(ATTRIBUTES, st.lists(METRICS, max_size=2)).map(
        lambda pair: {
            "resource": {"attributes": pair[0]},
            "scope_metrics": [
                {"scope": {"name": "test"}, "metrics": metrics} for metrics in pair[1]
            ],
        }
    ),
    max_size=2,
)


LARGE = MetricsData(
    resource_metrics=[{"resource": {"attributes": [{"key": "k" * MAX_POINT_BYTES}]}}]
).SerializeToString()


def decoded(data: bytes) -> Points:
    return run_at_once(decode_metrics(data))


def refusal(data: bytes) -> ErrorCode | None:
    try:
        decoded(data)
    except KafkaError as error:
        return error.code
    return None


def text_of(value: dict[str, Any]) -> str:
    (found,) = value.values()
    return str(found).lower() if isinstance(found, bool) else str(found)


def labels_of(attributes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["key"], text_of(each["value"])) for each in attributes]


def expected(push: list[dict[str, Any]]) -> list[Point]:
    found = []
    for of_resource in push:
        labels = labels_of(of_resource["resource"]["attributes"])
        for scope in of_resource["scope_metrics"]:
            for metric in scope["metrics"]:
                data = metric.get("gauge") or metric["sum"]
                kind = PointKind.GAUGE
                if data.get("aggregation_temporality") == 1:
                    kind = PointKind.DELTA
                elif data.get("is_monotonic"):
                    kind = PointKind.TOTAL
                for point in data["data_points"]:
                    own = labels_of(point["attributes"])
                    value = point.get("as_int", point.get("as_double"))
                    found.append(Point(metric["name"], (*labels, *own), kind, value))
    return found


@given(PUSHES)
def test_points_are_those_of_the_protobuf_library(push: list[dict[str, Any]]) -> None:
    data = MetricsData(resource_metrics=push).SerializeToString()
    assert decoded(data) == Points(expected(push), True)


@given(st.binary(max_size=60))
def test_other_bytes_are_points_or_an_error(data: bytes) -> None:
    assert refusal(data) in (None, ErrorCode.INVALID_RECORD)


@given(PUSHES, st.data())
def test_damaged_metrics_are_points_or_an_error(push: list[dict[str, Any]], data: Any) -> None:
    sound = bytearray(MetricsData(resource_metrics=push).SerializeToString())
    if sound:
        sound[data.draw(st.integers(0, len(sound) - 1))] ^= data.draw(st.integers(1, 255))
    assert refusal(bytes(sound)) in (None, ErrorCode.INVALID_RECORD)


@pytest.mark.mission("TEL-5")
def test_the_work_of_a_push_is_bounded() -> None:
    point = {"as_double": math.pi}
    metric = {"name": "m" * 1_000, "gauge": {"data_points": [point] * (MAX_POINTS + 7)}}
    push = [{"scope_metrics": [{"metrics": [metric]}]}]
    found, whole = decoded(MetricsData(resource_metrics=push).SerializeToString())
    assert (len(found), whole, found[0].name) == (MAX_POINTS, False, "m" * MAX_TEXT)
    empty = MetricsData(resource_metrics=[{}] * MAX_FIELDS).SerializeToString()
    assert decoded(empty) == Points([], True)
    assert decoded(MetricsData(resource_metrics=[{}]).SerializeToString() + empty).whole is False
    attribute = {"key": "k", "value": {"string_value": "v"}}
    metric = {"name": "m", "gauge": {"data_points": [{**point, "attributes": [attribute] * 50}]}}
    resource = {"attributes": [attribute] * 50}
    rows = [{"resource": resource, "scope_metrics": [{"metrics": [metric]}]}]
    ((value,), whole) = decoded(MetricsData(resource_metrics=rows).SerializeToString())
    assert (len(value.labels), whole) == (2 * MAX_ATTRIBUTES, True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a", "cut off"),
        (b"\x0a\x05a", "longer than the rest"),
        (b"\x0b", "wire type 3"),
        (b"\xff" * 11, "more than 64 bits"),
        (LARGE, "an attribute of more than 2048 bytes"),
    ],
)
def test_malformed_metrics(data: bytes, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        decoded(data)
    assert caught.value.code is ErrorCode.INVALID_RECORD
