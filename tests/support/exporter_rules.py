"""What jmx_exporter makes of ObjectNames: the logic of three sets of rules that people use.

A rule is a pattern of ``domain<type=T, name=N, tag=V><>attribute``, a name and labels; the first
rule that matches counts. These are the rules that concern a broker, in their order:
jmx_exporter's example ``kafka-2_0_0``, Strimzi's ``kafka-metrics`` and Confluent's
``kafka_broker``, which also makes the names of labels lower-case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from minikafka.core.prometheus import ObjectName
from minikafka.kernel.metrics import QUANTILES, MetricKind

QUANTILE = r"(\d+)thPercentile"
TAG = ", (.+)=(.+)"


class Rule(NamedTuple):
    pattern: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()


def with_tags(
    attribute: str, name: str, stem: str = "(.+)", quantile: bool = False
) -> Iterator[Rule]:
    """Return the rules of MBeans with two tags, with one and with none."""
    for tags in (2, 1, 0):
        labels = tuple((f"${4 + 2 * i}", f"${5 + 2 * i}") for i in range(tags))
        if quantile:
            labels += (("quantile", f"0.${4 + 2 * tags}"),)
        yield Rule(rf"kafka.(\w+)<type=(.+), name={stem}{TAG * tags}><>{attribute}", name, labels)


LAG = Rule(
    r"kafka.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
    "kafka_server_$1_$2",
    (("clientId", "$3"), ("topic", "$4"), ("partition", "$5")),
)
COORDINATORS = Rule(
    r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_$1_$2_$3"
)
PERCENTS = (
    Rule(r"kafka.(\w+)<type=(.+), name=(.+)Percent\w*><>MeanRate", "kafka_$1_$2_$3_percent"),
    Rule(r"kafka.(\w+)<type=(.+), name=(.+)Percent\w*><>Value", "kafka_$1_$2_$3_percent"),
)
CLIENTS = Rule(
    r"kafka.server<type=(.+), user=(.*), client-id=(.*)><>([a-z-]+)",
    "kafka_server_quota_$4",
    (("resource", "$1"), ("user", "$2"), ("clientId", "$3")),
)
SOCKETS = Rule(
    r"kafka.server<type=(.+), listener=(.+), networkProcessor=(.+)><>(.+)",
    "kafka_server_$1_$4",
    (("listener", "$2"), ("networkProcessor", "$3")),
)
COUNTERS = tuple(with_tags("Count", "kafka_$1_$2_$3_total", r"(.+)PerSec\w*"))
GAUGES = tuple(with_tags("Value", "kafka_$1_$2_$3"))
SUMMARIES = (
    *with_tags("Count", "kafka_$1_$2_$3_count"),
    *with_tags(QUANTILE, "kafka_$1_$2_$3", quantile=True),
)

JMX_EXPORTER = (LAG, COORDINATORS, *COUNTERS, CLIENTS, *GAUGES, *SUMMARIES, PERCENTS[0])
STRIMZI = (LAG, SOCKETS, *PERCENTS, *COUNTERS, *GAUGES, *SUMMARIES)
CONFLUENT = (
    Rule(
        r"kafka.(\w+)<type=(.+), name=(.+), topic=(.+), partition=(.+)><>Value",
        "kafka_$1_$2_$3",
        (("topic", "$4"), ("partition", "$5")),
    ),
    LAG,
    *with_tags("(?:Count|Value)", "kafka_$1_$2_$3"),
    Rule(
        r"kafka.server<type=socket-server-metrics, clientSoftwareName=(.+), "
        r"clientSoftwareVersion=(.+), listener=(.+), networkProcessor=(.+)><>connections",
        "kafka_server_socketservermetrics_connections",
        (
            ("client_software_name", "$1"),
            ("client_software_version", "$2"),
            ("listener", "$3"),
            ("network_processor", "$4"),
        ),
    ),
    Rule(
        r"kafka.server<type=socket-server-metrics, listener=(.+), networkProcessor=(.+)><>(.+)",
        "kafka_server_socketservermetrics_$3",
        (("listener", "$1"), ("network_processor", "$2")),
    ),
    Rule(
        r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>(?:Count|Value)",
        "kafka_coordinator_$1_$2_$3",
    ),
    *with_tags(QUANTILE, "kafka_$1_$2_$3", quantile=True),
    Rule(
        r"kafka.server<type=(Produce|Fetch|Request), user=(.*), client-id=(.*)><>(.+)",
        "kafka_server_$1_$4",
        (("user", "$2"), ("client-id", "$3")),
    ),
)

Exported = tuple[str, frozenset[tuple[str, str]]]


def exported(
    rules: tuple[Rule, ...], name: ObjectName, kind: MetricKind, lower_labels: bool = False
) -> set[Exported]:
    """Return the names and labels that the rules give to the attributes of an MBean."""
    tags = "".join(f", {key}={value}" for key, value in name.tags)
    named = f", name={name.name}" if name.name else ""
    attributes = {
        MetricKind.COUNTER: ["Count"],
        MetricKind.GAUGE: ["MeanRate"] if name.name.startswith("RequestHandlerAvg") else ["Value"],
        MetricKind.HISTOGRAM: ["Count", *QUANTILES.values()],
    }[kind]
    found = set()
    for attribute in [name.attribute] if name.attribute else attributes:
        mbean = f"{name.domain}<type={name.type}{named}{tags}><>{attribute}"
        for rule in rules:
            match = re.fullmatch(rule.pattern, mbean)
            if match is not None:
                found.add(_filled(rule, match, lower_labels))
                break
    return found


def _filled(rule: Rule, match: re.Match[str], lower_labels: bool) -> Exported:
    def fill(text: str) -> str:
        return re.sub(r"\$(\d+)", lambda number: match[int(number[1])], text)

    labels = {(fill(key), fill(value)) for key, value in rule.labels}
    legal = {(re.sub(r"\W", "_", key.lower() if lower_labels else key), v) for key, v in labels}
    return re.sub(r"\W", "_", fill(rule.name)).lower(), frozenset((k, v) for k, v in legal if v)
