"""The text for Prometheus: its names beside three sets of rules, its form beside two parsers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from minikafka.core.prometheus import Names, ObjectName, TextFormat, exposition, series_of
from minikafka.kernel.metrics import MetricKind, Metrics
from minikafka.kernel.slices import run_at_once
from tests.support import exporter_rules

COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
MBEANS = [
    ("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec", COUNTER),
    ("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t", COUNTER),
    ("kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=12", COUNTER),
    ("kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce", HISTOGRAM),
    ("kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs", HISTOGRAM),
    ("kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=2", GAUGE),
    ("kafka.server:type=ReplicaManager,name=LeaderCount", GAUGE),
    (
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch",
        GAUGE,
    ),
    ("kafka.cluster:type=Partition,name=UnderReplicated,topic=t,partition=0", GAUGE),
    ("kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0", GAUGE),
    (
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=F-0-1,topic=t,partition=0",
        GAUGE,
    ),
    ("kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent", GAUGE),
    ("kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent", GAUGE),
    ("kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups", GAUGE),
    ("kafka.server:type=Produce,user=u,client-id=c:byte-rate", GAUGE),
    (
        "kafka.server:type=socket-server-metrics,listener=CLIENT,networkProcessor=0:connection-count",
        GAUGE,
    ),
]


CONNECTIONS = (
    "kafka.server:type=socket-server-metrics,clientSoftwareName=librdkafka,"
    "clientSoftwareVersion=2.6.0,listener=CLIENT,networkProcessor=0:connections"
)


def ours(text: str, kind: MetricKind, names: Names) -> set[exporter_rules.Exported]:
    """Return what a scraper sees of one metric."""
    metrics = Metrics()
    if kind is COUNTER:
        metrics.counter(text)
    elif kind is HISTOGRAM:
        metrics.histogram(text)
    else:
        metrics.gauge(text, lambda: 1)
    shown = run_at_once(exposition(metrics.samples(), names, TextFormat.PROMETHEUS)).decode()
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
        if not sample.name.endswith("_sum")
    }


@pytest.mark.mission("GLASS-4")
@pytest.mark.parametrize(("name", "kind"), MBEANS)
def test_the_rules_of_jmx_exporter_and_of_strimzi_give_these_names(
    name: str, kind: MetricKind
) -> None:
    parsed = ObjectName.parse(name)
    shown = ours(name, kind, Names.JMX)
    expected = exporter_rules.exported(exporter_rules.JMX_EXPORTER, parsed, kind)
    strimzi = exporter_rules.exported(exporter_rules.STRIMZI, parsed, kind)
    assert expected | strimzi
    if parsed.type == "Produce":  # Strimzi's dashboards have nothing of quotas
        strimzi = set()
    assert expected | strimzi <= shown
    assert (
        shown <= expected | strimzi or "Percent" in name
    )  # its two names, of which a set of rules may have one


@pytest.mark.mission("GLASS-4")
@pytest.mark.parametrize(
    # Confluent's rules make a name of its own from each fetcher's lag.
    ("name", "kind"),
    [row for row in MBEANS if "FetcherLag" not in row[0]] + [(CONNECTIONS, GAUGE)],
)
def test_the_rules_of_confluent_give_these_names(name: str, kind: MetricKind) -> None:
    parsed = ObjectName.parse(name)
    expected = exporter_rules.exported(exporter_rules.CONFLUENT, parsed, kind, lower_labels=True)
    if parsed.type == "KafkaRequestHandlerPool":
        pool = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"
        expected = {(f"{pool}{suffix}", frozenset()) for suffix in ("_total", "_oneminuterate")}
    shown = ours(name, kind, Names.CONFLUENT)
    if kind is HISTOGRAM:  # Confluent's count has the name of the summary itself
        shown = {(n.removesuffix("_count"), labels) for n, labels in shown}
    assert shown == expected


VALUES = st.text(st.characters(blacklist_characters=",:=", blacklist_categories=["Cs"]))


@pytest.mark.mission("GLASS-4")
@given(st.lists(VALUES, min_size=1, max_size=5, unique=True), st.integers(-(2**53), 2**53))
def test_any_value_of_a_label_is_read_back(values: list[str], number: int) -> None:
    values = [value for value in values if "\n" not in value and "\r" not in value]
    metrics = Metrics()
    for value in values:
        metrics.gauge(f"kafka.x:type=T,name=N,user={value}", lambda: number)
    for text_format, parse in (
        (TextFormat.PROMETHEUS, text_string_to_metric_families),
        (TextFormat.OPEN_METRICS, open_metrics.text_string_to_metric_families),
    ):
        text = run_at_once(exposition(metrics.samples(), Names.JMX, text_format)).decode()
        found = [s for family in parse(text) for s in family.samples]
        assert {s.labels.get("user", "") for s in found} == set(values)
        assert all(s.value == float(number) for s in found)


@pytest.mark.mission("GLASS-4")
def test_both_formats_have_the_types_of_all_kinds() -> None:
    metrics = Metrics()
    metrics.counter("kafka.x:type=T,name=APerSec").mark(2)
    metrics.gauge("kafka.x:type=T,name=B", lambda: 0.5)
    metrics.histogram("kafka.x:type=T,name=C", 1000).record(1_500)
    metrics.counter("kafka.x:type=T,name=D").mark()
    for text_format, parse, counter in (
        (TextFormat.PROMETHEUS, text_string_to_metric_families, "kafka_x_t_a"),
        (TextFormat.OPEN_METRICS, open_metrics.text_string_to_metric_families, "kafka_x_t_a"),
    ):
        text = run_at_once(exposition(metrics.samples(), Names.JMX, text_format)).decode()
        families = {f.name: f for f in parse(text)}
        assert {name: f.type for name, f in families.items()} == {
            counter: "counter",
            "kafka_x_t_b": "gauge",
            "kafka_x_t_c": "summary",
            "kafka_x_t_d_count": "unknown",
        }
        values = {
            (s.name, s.labels.get("quantile")): s.value for s in families["kafka_x_t_c"].samples
        }
        assert values["kafka_x_t_c_sum", None] == 1.5
        assert values["kafka_x_t_c_count", None] == 1
        assert values["kafka_x_t_c", "0.99"] == 1.5


def test_a_name_that_is_none_is_refused() -> None:
    for text in ("LeaderCount", "kafka.server:name=X", "kafka.server:type=X,topic"):
        with pytest.raises(ValueError, match="no name of a metric"):
            ObjectName.parse(text)
    assert [s.name for s in series_of(ObjectName.parse("a.b:type=C,name=D"), GAUGE, Names.JMX)] == [
        "a_b_c_d"
    ]
