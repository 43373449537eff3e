"""Metrics of topics and of the lag of groups, under the names of kafka_exporter.

A coordinator knows what a group has committed and leaders know where logs end, so no broker could
show its lag. Dashboards for kafka_exporter show these metrics as they are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.core.client.admin.groups import SHARE, STREAMS, GroupDescription
from minikafka.core.client.admin.streams_groups import StreamsGroupDescription
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.cluster_facts import FailedCall, PartitionOffsets
from minikafka.page.dashboard.cluster_reader import ClusterReader

MAX_AGE_MS: Final = 5_000  # scrapes within so long share one look
MAX_PARTITIONS: Final = 10_000
MAX_GROUPS: Final = 1_000

Labels = Mapping[str, object]


class Lags(NamedTuple):
    """What one scrape shows. ``committed`` and ``described`` are of groups that commit offsets:
    share groups do not."""

    view: ClusterView
    offsets: Mapping[TopicPartition, PartitionOffsets]
    described: Mapping[str, GroupDescription | StreamsGroupDescription]
    committed: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]


class LagMetrics:
    """Looks at the cluster when it is scraped, and not otherwise."""

    def __init__(self, clock: Clock, reader: ClusterReader) -> None:
        self._clock = clock
        self._reader = reader
        self._text = ""
        self._read_ms: int | None = None
        self._lock = asyncio.Lock()

    async def text(self) -> str:
        """Return the metrics in Prometheus' text format. Raises KafkaError."""
        async with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._read_ms is None or now_ms - self._read_ms > MAX_AGE_MS:
                self._text = exposition(await self._read())
                self._read_ms = self._clock.monotonic_ms()
            return self._text

    async def _read(self) -> Lags:
        reader = self._reader
        errors: list[FailedCall] = []
        view = await reader.all_topics(MAX_AGE_MS)
        partitions = [
            TopicPartition(name, number)
            for name, topic in view.topics.items()
            for number in topic.partitions
        ]
        offsets = await reader.offsets(partitions[:MAX_PARTITIONS], errors)
        listed = await reader.list_groups(errors)
        committing = sorted(name for name, row in listed.items() if row[1].group_type != SHARE)
        coordinators = {name: listed[name][0] for name in committing[:MAX_GROUPS]}
        of_streams = {n: at for n, at in coordinators.items() if listed[n][1].group_type == STREAMS}
        others = {name: at for name, at in coordinators.items() if name not in of_streams}
        described = await reader.describe_groups(others, errors)
        streams = await reader.describe_streams_groups(of_streams, errors)
        committed = await reader.committed(coordinators, errors)
        return Lags(view, offsets, {**described, **streams}, committed)


def exposition(lags: Lags) -> str:
    """Return the text of all series; those of one name are together."""
    families: dict[str, list[str]] = defaultdict(list)
    for name, labels, value in [*_topics(lags), *_groups(lags)]:
        families[name].append(f"{name}{_braces(labels)} {value}")
    lines = (line for name, rows in families.items() for line in (f"# TYPE {name} gauge", *rows))
    return "".join(f"{line}\n" for line in lines)


def _topics(lags: Lags) -> Iterator[tuple[str, Labels, int]]:
    view = lags.view
    yield "kafka_brokers", {}, len(view.nodes)
    for node in view.nodes.values():
        yield "kafka_broker_info", {"id": node.id, "address": f"{node.host}:{node.port}"}, 1
    for name, topic in view.topics.items():
        yield "kafka_topic_partitions", {"topic": name}, len(topic.partitions)
        for number, partition in topic.partitions.items():
            at = lags.offsets.get(TopicPartition(name, number))
            if at is None:  # beyond the bound
                continue
            labels = {"topic": name, "partition": number}
            preferred = bool(partition.replicas) and partition.leader == partition.replicas[0]
            lagging = len(partition.isr) < len(partition.replicas)
            prefix = "kafka_topic_partition_"
            yield f"{prefix}leader", labels, partition.leader
            yield f"{prefix}leader_is_preferred", labels, int(preferred)
            yield f"{prefix}replicas", labels, len(partition.replicas)
            yield f"{prefix}in_sync_replica", labels, len(partition.isr)
            yield f"{prefix}under_replicated_partition", labels, int(lagging)
            if at.high_watermark is not None:
                yield f"{prefix}current_offset", labels, at.high_watermark
            if at.log_start is not None:
                yield f"{prefix}oldest_offset", labels, at.log_start


def _groups(lags: Lags) -> Iterator[tuple[str, Labels, int]]:
    for group, description in lags.described.items():
        members = len(description.members)
        yield "kafka_consumergroup_members", {"consumergroup": group}, members
    for group, offsets in lags.committed.items():
        sums: dict[str, int] = {}
        lags_of: dict[str, int | None] = {}  # None: not known of one partition at least
        for (topic, partition), at in offsets.items():
            labels = {"consumergroup": group, "topic": topic, "partition": partition}
            yield "kafka_consumergroup_current_offset", labels, at.offset
            sums[topic] = sums.get(topic, 0) + at.offset
            end = lags.offsets.get(TopicPartition(topic, partition), PartitionOffsets())
            so_far = lags_of.setdefault(topic, 0)
            if end.high_watermark is None:
                lags_of[topic] = None
                continue
            lag = max(0, end.high_watermark - at.offset)
            lags_of[topic] = None if so_far is None else so_far + lag
            yield "kafka_consumergroup_lag", labels, lag
        for topic, offset in sums.items():
            labels = {"consumergroup": group, "topic": topic}
            yield "kafka_consumergroup_current_offset_sum", labels, offset
            sum_of_lags = lags_of[topic]
            if sum_of_lags is not None:
                yield "kafka_consumergroup_lag_sum", labels, sum_of_lags


def _braces(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
