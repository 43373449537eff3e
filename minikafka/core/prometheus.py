"""The text in which Prometheus reads metrics, under the names that dashboards for Kafka query.

There is no one set of such names. Exporters derive them from ObjectNames by rules, and dashboards
were drawn for one or another set of rules. ``Names.JMX`` are those of jmx_exporter's example
``kafka-2_0_0``, which Strimzi's and Grafana's dashboards query, with Strimzi's names of percents
beside its own; ``Names.CONFLUENT`` are those of Confluent's ``jmx-monitoring-stacks``.

==================  ==========================================  ===================================
kind                JMX                                         CONFLUENT
==================  ==========================================  ===================================
a counter           ``kafka_server_x_bytesin_total``            ``kafka_server_x_bytesinpersec``
a gauge             ``kafka_server_x_leadercount``              the same
a percentage        ``..._requesthandleravgidle_percent``       ``...percent``
a histogram         ``..._totaltimems{quantile="0.99"}``        the same
of a client         ``kafka_server_quota_byte_rate``            ``kafka_server_produce_byte_rate``
labels              ``clientId``, ``delayedOperation``          ``client_id``, ``delayedoperation``
==================  ==========================================  ===================================

The text is built sample by sample, so that the caller can let others run meanwhile.

The names of MBeans are parsed as ``kernel/metrics`` spells them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from minikafka.kernel.metrics import PUSHED, QUANTILES, Histogram, MetricKind, Sample

_NAME = re.compile(
    r"(?P<domain>[\w.]+):type=(?P<type>[^,:]+)(?:,name=(?P<name>[^,:]+))?"
    r"(?P<tags>(?:,[\w-]+=[^,:]*)*)(?::(?P<attribute>[\w-]+))?"
)


class ObjectName(NamedTuple):
    """``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t``. ``name`` or
    ``attribute`` is empty: MBeans of Kafka's clients have attributes instead of names."""

    domain: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]
    attribute: str

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Raises ValueError."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(f"{text} is no name of a metric")
        pairs = (tag.split("=", 1) for tag in match["tags"].split(",")[1:])
        tags = tuple((key, value) for key, value in pairs)
        return cls(
            match["domain"], match["type"], match["name"] or "", tags, match["attribute"] or ""
        )


_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")
_PER_SECOND = "PerSec"
_PERCENT = "Percent"
_SOCKETS = "socket-server-metrics"
_SOCKET_LABELS = {  # of Confluent
    "networkProcessor": "network_processor",
    "clientSoftwareName": "client_software_name",
    "clientSoftwareVersion": "client_software_version",
}
PROCESS = "process"  # the domain of what Prometheus' clients show of every process, e.g. its CPU
_IDLE = "RequestHandlerAvgIdlePercent"  # a meter in Kafka
# MBeans of quotas: their tags name a client, their attributes what is limited.
_OF_CLIENTS = frozenset({"Produce", "Fetch", "Request", "ControllerMutation"})
# The quantiles as rules write them: "0." and the number in the attribute's name.
_QUANTILE_LABELS = {
    share: f"0.{attribute.removesuffix('thPercentile')}" for share, attribute in QUANTILES.items()
}


class Names(Enum):
    """The rules by which names are derived."""

    JMX = "jmx"
    CONFLUENT = "confluent"


class TextFormat(Enum):
    """Prometheus' text format and OpenMetrics, by their content types."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Series(NamedTuple):
    """A name and the labels of one sample, without braces."""

    name: str
    labels: str


class _Family:
    """The lines of one name, which have to be together."""

    __slots__ = ("kind", "lines")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.lines: list[str] = []


def exposition(
    samples: Iterable[Sample], names: Names, text_format: TextFormat
) -> Generator[None, None, bytes]:
    """Return the text of all samples; yields after each one. A name that has two kinds keeps the
    first."""
    families: dict[str, _Family] = {}
    for sample in samples:
        for series in series_of(ObjectName.parse(sample.name), sample.kind, names):
            kind, lines = _lines(series, sample)
            families.setdefault(series.name, _Family(kind)).lines += lines
        yield
    parts = []
    for name, family in families.items():
        parts.append(_type_line(name, family.kind, text_format))
        parts += family.lines
        yield
    if text_format is TextFormat.OPEN_METRICS:
        parts.append("# EOF")
    return ("\n".join(parts) + "\n").encode()


def series_of(name: ObjectName, kind: MetricKind, names: Names) -> Iterator[Series]:
    """Return under which names and labels a metric is shown; a percentage has two in JMX."""
    labels = _labels(name, names)
    base = f"{name.domain}_{name.type}_{name.name or name.attribute}"
    if name.domain == PUSHED:
        yield Series(name.name, labels)
    elif not name.name:
        yield Series(_attribute_name(name, names), labels)
    elif name.name == _IDLE and names is Names.CONFLUENT:
        for rate in ("total", "oneminuterate"):  # two generations of dashboards
            yield Series(_legal(f"{base}_{rate}"), labels)
    elif name.domain == PROCESS:
        yield Series(f"{base}_total" if kind is MetricKind.COUNTER else base, labels)
    elif kind is MetricKind.COUNTER and names is Names.JMX:
        stem, found, _ = base.rpartition(_PER_SECOND)
        yield Series(_legal(f"{stem}_total" if found else f"{base}_count"), labels)
    else:
        yield Series(_legal(base), labels)
        if kind is MetricKind.GAUGE and names is Names.JMX and base.endswith(_PERCENT):
            yield Series(_legal(f"{base.removesuffix(_PERCENT)}_percent"), labels)


def _attribute_name(name: ObjectName, names: Names) -> str:
    kind = name.type
    if kind in _OF_CLIENTS and names is Names.JMX:
        kind = "quota"
    elif kind == _SOCKETS and names is Names.CONFLUENT:
        kind = "socketservermetrics"
    return _legal(f"{name.domain}_{kind}_{name.attribute}")


def _labels(name: ObjectName, names: Names) -> str:
    tags = list(name.tags)
    if name.type in _OF_CLIENTS and names is Names.JMX:
        tags = [
            ("resource", name.type),
            *((k.replace("client-id", "clientId"), v) for k, v in tags),
        ]
    elif names is Names.CONFLUENT:
        tags = [(_confluent_label(name, key), value) for key, value in tags]
    return ",".join(f'{_ILLEGAL.sub("_", key)}="{_escaped(value)}"' for key, value in tags if value)


def _confluent_label(name: ObjectName, key: str) -> str:
    if name.type == _SOCKETS:
        return _SOCKET_LABELS.get(key, key)
    return key.lower()


def _lines(series: Series, sample: Sample) -> tuple[str, list[str]]:
    """Return the kind of a name, and the lines of a sample."""
    if sample.histogram is not None:
        return "summary", list(_summary(series, sample.histogram))
    kind = sample.kind.value
    if kind == "counter" and not series.name.endswith("_total"):
        kind = "untyped"  # OpenMetrics has no counter of another name
    return kind, [f"{series.name}{_braces(series.labels)} {_number(sample.value)}"]


def _summary(series: Series, histogram: Histogram) -> Iterator[str]:
    name, labels = series
    prefix = f"{labels}," if labels else ""
    values = histogram.quantiles(_QUANTILE_LABELS)
    for quantile, value in zip(_QUANTILE_LABELS.values(), values, strict=True):
        yield f'{name}{{{prefix}quantile="{quantile}"}} {_number(value)}'
    yield f"{name}_sum{_braces(labels)} {_number(histogram.sum)}"
    yield f"{name}_count{_braces(labels)} {histogram.count}"


def _type_line(name: str, kind: str, text_format: TextFormat) -> str:
    if text_format is TextFormat.OPEN_METRICS:
        if kind == "counter":
            name = name.removesuffix("_total")
        elif kind == "untyped":
            kind = "unknown"
    return f"# TYPE {name} {kind}"


def _braces(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name).lower()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
