"""Counters, gauges, histograms, and what a snapshot shows of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.metrics import Histogram, MetricKind, Metrics

VALUES = st.integers(0, 2**43)


@given(st.lists(VALUES, min_size=1, max_size=2_000), st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0]))
def test_a_quantile_is_at_most_an_eighth_too_large(values: list[int], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    (quantile,) = histogram.quantiles([share])
    assert exact <= quantile <= exact * 9 / 8
    assert histogram.max == max(values)
    assert histogram.count == len(values)
    assert histogram.sum == sum(values)


def test_quantiles_are_those_of_the_last_two_windows() -> None:
    histogram = Histogram()
    histogram.record(1_000)
    histogram.rotate()
    histogram.record(2)
    assert histogram.max == 1_000
    histogram.rotate()
    assert histogram.quantiles([0.5]) == [2]
    assert histogram.max == 2
    histogram.rotate()
    assert (histogram.max, histogram.quantiles([0.99]), histogram.count) == (0, [0], 2)


def test_values_beyond_the_last_bucket_are_counted() -> None:
    histogram = Histogram()
    histogram.record(2**60)
    assert histogram.count == 1
    assert histogram.max == 2**60
    assert 0 < histogram.quantiles([0.5])[0] <= 2**60


def test_a_histogram_shows_its_attributes_in_its_unit() -> None:
    metrics = Metrics()
    times = metrics.histogram("kafka.network:type=RequestMetrics,name=TotalTimeMs", scale=1000)
    for microseconds in (500, 1_500):
        times.record(microseconds)
    shown = metrics.snapshot("kafka.network:")
    name = "kafka.network:type=RequestMetrics,name=TotalTimeMs"
    assert shown[f"{name}:Count"] == 2
    assert shown[f"{name}:Mean"] == 1.0
    assert shown[f"{name}:Max"] == 1.5
    assert shown[f"{name}:99thPercentile"] == 1.5
    assert metrics.histogram(name, scale=1000) is times


def test_samples_say_the_kind_of_each_metric() -> None:
    metrics = Metrics()
    metrics.counter("d:type=A,name=C").mark(3)
    metrics.gauge("d:type=A,name=G", lambda: 2.5)
    metrics.family(lambda: [("d:type=A,name=F,topic=t", 7)], MetricKind.COUNTER)
    metrics.gauge("other:type=A", lambda: pytest.fail("is not read"))
    found = {sample.name: (sample.kind, sample.value) for sample in metrics.samples("d:")}
    assert found == {
        "d:type=A,name=C": (MetricKind.COUNTER, 3),
        "d:type=A,name=G": (MetricKind.GAUGE, 2.5),
        "d:type=A,name=F,topic=t": (MetricKind.COUNTER, 7),
    }
    metrics.remove("d:type=A,name=C")
    assert "d:type=A,name=C" not in metrics.snapshot("d:")
