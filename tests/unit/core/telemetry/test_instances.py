"""Which requests of clients are accepted, and what client metrics resources make of a client."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.core.telemetry import instances
from minikafka.core.telemetry.instances import ClientInstance, ClientInstances, Push
from minikafka.core.telemetry.subscriptions import (
    CLIENT_ID,
    SOFTWARE_NAME,
    MetricsSubscription,
    parse_subscription,
    subscription_id,
    subscription_of,
)
from minikafka.kernel.errors import ErrorCode, KafkaError

CLIENT = UUID("12345678-9abc-4def-8123-456789abcdef")
ORIGIN = ("host", 1)
MAX_BYTES = 100
INTERVAL_MS = 1_000


class Lab:
    """The instances of a broker with one resource, at a time."""

    def __init__(self) -> None:
        self.instances = ClientInstances()
        self.instances.set_resource("all", MetricsSubscription(("*",), INTERVAL_MS))
        self.now_ms = 0

    def instance(self, client: UUID = CLIENT, origin: tuple[str, int] = ORIGIN) -> ClientInstance:
        return self.instances.instance(client, origin, {CLIENT_ID: "c"}, self.now_ms)

    def get(self, **facts: Any) -> ErrorCode:
        return code_of(lambda: self.instance(**facts).begin_get(self.now_ms))

    def push(self, **facts: Any) -> ErrorCode:
        instance = self.instance()
        push = Push(CLIENT, instance.subscription_id, False, 0, 1)._replace(**facts)
        return code_of(lambda: instance.begin_push(push, self.now_ms, MAX_BYTES))


def code_of(call: Any) -> ErrorCode:
    try:
        call()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_a_client_keeps_its_interval() -> None:
    lab = Lab()
    early = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert lab.get() is ErrorCode.NONE
    assert lab.get() is early
    lab.now_ms = 1
    assert lab.push() is ErrorCode.NONE  # the first push after a request is never early
    lab.now_ms = INTERVAL_MS
    assert lab.push() is early
    lab.now_ms = INTERVAL_MS + 1
    assert [lab.push(), lab.push(), lab.get()] == [ErrorCode.NONE, early, early]
    lab.now_ms += INTERVAL_MS
    assert lab.get() is ErrorCode.NONE


def test_errors_of_pushes() -> None:
    lab = Lab()
    for facts, expected in (
        ({"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": MAX_BYTES + 1}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": MAX_BYTES, "compression_type": 4}, ErrorCode.NONE),
    ):
        lab.now_ms += INTERVAL_MS
        assert lab.push(**facts) is expected
    assert lab.push(terminating=True) is ErrorCode.NONE  # early, but the last one
    assert lab.push(terminating=True) is ErrorCode.INVALID_REQUEST
    assert lab.push() is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="Invalid client instance id"):
        instances.require_client_id(UUID(int=1))


@pytest.mark.parametrize(
    ("facts", "again"),
    [
        ({"subscription_id": 1}, ErrorCode.NONE),
        ({"compression_type": 5}, ErrorCode.NONE),
        ({"size": MAX_BYTES + 1}, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    ],
)
def test_some_errors_make_a_client_ask_at_once(facts: dict[str, int], again: ErrorCode) -> None:
    lab = Lab()
    lab.get()
    lab.push(**facts)
    assert lab.get() is again
    assert lab.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_change_and_another_connection_begin_a_new_instance() -> None:
    lab = Lab()
    first = lab.instance()
    assert lab.instance() is first
    second = lab.instance(origin=("host", 2))
    assert second is not first
    lab.instances.set_resource("all", MetricsSubscription(("a", "b"), INTERVAL_MS))
    third = lab.instance(origin=("host", 2))
    assert third.subscription == MetricsSubscription(("a", "b"), INTERVAL_MS)
    assert third.subscription_id != second.subscription_id
    lab.instances.set_resource("none", None)  # no change
    assert lab.instance(origin=("host", 2)) is third


@pytest.mark.mission("TEL-5")
def test_instances_end_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    lab.instance()
    lab.now_ms = instances.LEAST_LIFE_MS - 1
    other = UUID(int=5)
    lab.instance(other)
    assert CLIENT in lab.instances
    lab.now_ms += 11_000
    lab.instance(other)
    assert CLIENT not in lab.instances
    monkeypatch.setattr(instances, "MAX_INSTANCES", 2)
    for number in (6, 5, 7):
        lab.instance(UUID(int=number))
    assert [UUID(int=number) in lab.instances for number in (5, 6, 7)] == [True, False, True]


def test_a_client_pushes_what_all_its_resources_say() -> None:
    java = parse_subscription({"metrics": "b,a", "match": "client_software_name=.*java"})
    fast = parse_subscription({"metrics": "a", "interval.ms": "100", "match": "client_id=x"})
    everything = parse_subscription({"metrics": "*"})
    of_java = {SOFTWARE_NAME: "apache-java", CLIENT_ID: "x"}
    assert subscription_of(of_java, [java, fast]) == MetricsSubscription(("a", "b"), 100)
    assert subscription_of(of_java, [java, everything]).metrics == ("*",)
    assert subscription_of({SOFTWARE_NAME: "java-not"}, [java, fast]) == MetricsSubscription()
    slow = parse_subscription({"interval.ms": "3600000"})
    assert subscription_of({}, [slow]).interval_ms == 300_000


def test_ids_of_subscriptions_are_kafkas() -> None:
    """The numbers are those of an official broker (tests/kafka/test_kafka_4_apis.py)."""
    assert (
        subscription_id(MetricsSubscription(("org.apache.kafka.",), 60_000), CLIENT) == -625475395
    )
    assert subscription_id(MetricsSubscription(), UUID(int=7)) == -725132327


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"unknown": "1"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
        ({"match": "client=x"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": ""}, ErrorCode.NONE),
    ],
)
def test_settings_are_checked(settings: dict[str, str], expected: ErrorCode) -> None:
    assert code_of(lambda: parse_subscription(settings)) is expected
