"""What a request uses of its client's quotas, and for how long its connection is muted."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.client_quota import ANY, DEFAULT, RateConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.messages.fetch import FetchResponse
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.protocol.messages.produce import ProduceResponse
from minikafka.server.broker.quotas import MAX_METRICS, ClientQuotas, Quota, RequestThrottle
from tests.support.world.manual_clock import StoppedClock


class Lab:
    """Quotas of user ``u``, at 1 s since the start of the clock."""

    def __init__(self, **config: str) -> None:
        self.clock = StoppedClock(1_000)
        self.metrics = Metrics()
        self.quotas = ClientQuotas(self.clock, RateConfig(), RateConfig(), self.metrics)
        self.quotas.set("u", ANY, config)

    def throttle(self, quota: Quota = Quota.MUTATIONS, size: int = 0) -> RequestThrottle:
        throttle = self.quotas.throttle_of(quota, "u", "c", size)
        assert throttle is not None
        return throttle

    def busy(self, busy_ms: int, response: Any, quota: Quota = Quota.MUTATIONS) -> int:
        """Return the throttle time of a request whose handler takes ``busy_ms``."""
        throttle = self.throttle(quota)
        self.clock.now_ms += busy_ms
        return throttle.finish(response)


@pytest.mark.mission("SEC-149")
def test_the_time_of_the_loop_throttles_for_one_window_at_most() -> None:
    lab = Lab(request_percentage="5")
    response = MetadataResponse()
    assert lab.busy(400, response) == 0  # 4 % of ten seconds
    assert response.throttle_time_ms == 0
    assert lab.busy(110, response) > 0
    assert lab.busy(900, response) == 1_000
    assert response.throttle_time_ms == 1_000


@pytest.mark.mission("SEC-149")
def test_only_the_steps_of_a_request_count_and_its_encoding_counts_for_the_next() -> None:
    lab = Lab(request_percentage="5")
    throttle = lab.throttle()
    lab.clock.now_ms += 300
    throttle.pause()
    lab.clock.now_ms += 4_000  # parked
    throttle.resume()
    lab.clock.now_ms += 100
    assert throttle.finish(MetadataResponse()) == 0
    lab.clock.now_ms += 200
    throttle.sent()
    assert lab.busy(0, MetadataResponse()) > 0


@pytest.mark.mission("SEC-149")
def test_requests_of_brokers_are_exempt_unless_they_are_unauthorized() -> None:
    lab = Lab(request_percentage="1")
    assert lab.busy(5_000, LeaderAndIsrResponse(), Quota.EXEMPT) == 0
    denied = LeaderAndIsrResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert lab.busy(5_000, denied, Quota.EXEMPT) == 1_000
    follower = lab.throttle(Quota.FETCH)
    follower.exempt = True
    lab.clock.now_ms += 5_000
    assert follower.finish(FetchResponse()) == 0


@pytest.mark.mission("SEC-144", "SEC-146")
def test_the_longer_of_two_throttle_times_counts_and_is_noted_for_its_kind() -> None:
    lab = Lab(producer_byte_rate="100", request_percentage="1")
    throttle = lab.throttle(Quota.PRODUCE, size=3_000)
    lab.clock.now_ms += 5_000
    response = ProduceResponse()
    assert throttle.finish(response) == response.throttle_time_ms == 20_000
    times = {
        name.partition("type=")[2]: value
        for name, value in lab.metrics.snapshot("kafka.server:type=").items()
        if name.endswith(":throttle-time")
    }
    assert times == {
        "Produce,user=u,client-id=:throttle-time": 20_000,
        "Request,user=u,client-id=:throttle-time": 0,
    }


@pytest.mark.mission("SEC-146")
def test_without_acks_the_bytes_count_and_the_time_does_not() -> None:
    lab = Lab(producer_byte_rate="100", request_percentage="1")
    small = lab.throttle(Quota.PRODUCE, size=10)
    lab.clock.now_ms += 5_000
    assert small.finish(None) == 0
    assert lab.throttle(Quota.PRODUCE, size=2_990).finish(None) > 0


@pytest.mark.mission("SEC-145")
def test_a_throttled_fetch_gives_its_bytes_back() -> None:
    lab = Lab(consumer_byte_rate="100")
    throttle = lab.throttle(Quota.FETCH)
    assert throttle.most_fetched == 1_000
    assert not throttle.fetched(1_000)
    assert throttle.finish(FetchResponse()) == 0
    throttled = lab.throttle(Quota.FETCH)
    assert throttled.fetched(500)
    response = FetchResponse()
    assert throttled.finish(response) == response.throttle_time_ms == 5_000
    rates = lab.metrics.snapshot("kafka.server:type=Fetch,")
    assert [v for name, v in rates.items() if name.endswith(":byte-rate")] == [100.0]


@pytest.mark.mission("SEC-147")
def test_the_time_that_a_request_waits_is_deducted_from_its_throttle_time() -> None:
    lab = Lab(controller_mutation_rate="1")
    throttle = lab.throttle(Quota.MUTATIONS)
    take = throttle.mutations(strict=False)
    take(16)
    lab.clock.now_ms += 2_000
    assert throttle.finish(MetadataResponse()) == 3_000
    strict = lab.throttle(Quota.MUTATIONS)
    with pytest.raises(KafkaError) as refused:
        strict.mutations(strict=True)(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.finish(MetadataResponse()) == 3_000


@pytest.mark.mission("SEC-143")
def test_without_a_limit_there_is_nothing_to_measure() -> None:
    lab = Lab(producer_byte_rate="100")
    assert lab.quotas.enabled
    assert lab.quotas.throttle_of(Quota.PRODUCE, "v", "c", 1) is None
    assert lab.quotas.throttle_of(Quota.REQUESTS, "u", "c", 1) is None
    lab.quotas.set("u", ANY, {})
    assert not lab.quotas.enabled


@pytest.mark.mission("SEC-143")
def test_the_metrics_of_clients_are_bounded() -> None:
    lab = Lab()
    lab.quotas.set(DEFAULT, DEFAULT, {"producer_byte_rate": "1"})
    for number in range(MAX_METRICS + 10):
        lab.quotas.throttle_of(Quota.PRODUCE, "u", f"a,b={number}", 1)
    shown = lab.metrics.snapshot("kafka.server:type=Produce,")
    assert len(shown) == 2 * MAX_METRICS
    assert f"kafka.server:type=Produce,user=u,client-id=a%2Cb%3D{number}:byte-rate" in shown
