"""Turns samples of a cluster into the numbers of its history. Pure.

A sample has counters and log ends; rates are the differences between two samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import nlargest
from typing import Final, NamedTuple, TypeVar

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.history.end_times import EndTimes, LagTime
from minikafka.page.dashboard.history.ring import HistorySeries

MAX_TOPICS: Final = 300  # of which a history is kept: those with the highest rates, then sizes
MAX_GROUPS: Final = 200  # of which a history is kept: those with the most lag
COUNTERS: Final = ("messages_in", "bytes_in", "bytes_out", "requests")

Committed = Mapping[TopicPartition, int]
N = TypeVar("N", bound=tuple[float | bool | None, ...])


class SampledCluster(NamedTuple):
    """What was read of a cluster at one time. ``sizes`` has the bytes of each replica, by broker;
    ``counters`` are those of brokers that show their inside, by their names in ``COUNTERS``."""

    at_ms: int
    ends: Mapping[TopicPartition, int] = {}
    committed: Mapping[str, Committed] = {}
    sizes: Mapping[TopicPartition, Mapping[int, int]] = {}
    counters: Mapping[int, Mapping[str, int]] = {}


class TopicNow(NamedTuple):
    """None where it is not known. ``size_bytes`` is that of one copy, by the largest replica of
    each partition."""

    records_per_s: float | None = None
    size_bytes: int | None = None


class GroupNow(NamedTuple):
    """``lag_ms`` is the longest of all partitions; it is longer still if not ``lag_exact``."""

    lag: int | None = None
    lag_ms: int | None = None
    lag_exact: bool = True


class Figures(NamedTuple):
    topics: Mapping[str, TopicNow]
    groups: Mapping[str, GroupNow]
    values: Mapping[HistorySeries, float]  # for the history


def figures(
    before: SampledCluster | None,
    sample: SampledCluster,
    end_times: Mapping[TopicPartition, EndTimes],
) -> Figures:
    """Return what two samples say. Counters that have become smaller are those of a new broker or
    topic, so they have no rate yet."""
    rates = {} if before is None else _record_rates(before, sample)
    sizes = _topic_sizes(sample)
    topics = {
        name: TopicNow(rates.get(name), sizes.get(name))
        for name in sorted(rates.keys() | sizes.keys())
    }
    groups = {
        name: group_now(committed, sample.ends, end_times, sample.at_ms)
        for name, committed in sample.committed.items()
    }
    values: dict[HistorySeries, float] = {}
    if rates:
        values[HistorySeries("cluster", "", "records")] = sum(rates.values())
    if sizes:
        values[HistorySeries("cluster", "", "size")] = sum(_broker_sizes(sample).values())
    values |= _broker_values(before, sample)
    for name, topic in _most(topics, MAX_TOPICS):
        if topic.records_per_s is not None:
            values[HistorySeries("topic", name, "records")] = topic.records_per_s
        if topic.size_bytes is not None:
            values[HistorySeries("topic", name, "size")] = topic.size_bytes
    for name, group in _most(groups, MAX_GROUPS):
        if group.lag is not None:
            values[HistorySeries("group", name, "lag")] = group.lag
        if group.lag_ms is not None:
            values[HistorySeries("group", name, "lag_ms")] = group.lag_ms
    return Figures(topics, groups, values)


def group_now(
    committed: Committed,
    ends: Mapping[TopicPartition, int],
    end_times: Mapping[TopicPartition, EndTimes],
    now_ms: int,
) -> GroupNow:
    """Return the lag of a group; None where that of a partition is not known."""
    if not all(tp in ends for tp in committed):
        return GroupNow()
    lag = sum(max(0, ends[tp] - offset) for tp, offset in committed.items())
    times = [lag_time(tp, offset, end_times, now_ms) for tp, offset in committed.items()]
    known = [each for each in times if each is not None]
    if len(known) < len(times):
        return GroupNow(lag)
    longest = max(known, default=LagTime(0, True))
    return GroupNow(lag, longest.ms, all(each.exact for each in known))


def lag_time(
    tp: TopicPartition,
    offset: int,
    end_times: Mapping[TopicPartition, EndTimes],
    now_ms: int,
    end: int | None = None,
) -> LagTime | None:
    """Return for how long the record at a committed offset has waited, None if it is not known.
    ``end`` is the log end at ``now_ms``, if it was read since the last sample."""
    known = end_times.get(tp)
    return None if known is None else known.lag(offset, now_ms, end)


def _record_rates(before: SampledCluster, sample: SampledCluster) -> dict[str, float]:
    """Return records a second by topic."""
    passed_ms = sample.at_ms - before.at_ms
    if passed_ms <= 0:
        return {}
    more: defaultdict[str, int] = defaultdict(int)
    for tp, end in sample.ends.items():
        if tp in before.ends:
            more[tp.topic] += max(0, end - before.ends[tp])
    return {name: count * 1000 / passed_ms for name, count in more.items()}


def _topic_sizes(sample: SampledCluster) -> dict[str, int]:
    found: defaultdict[str, int] = defaultdict(int)
    for tp, replicas in sample.sizes.items():
        found[tp.topic] += max(replicas.values(), default=0)
    return found


def _broker_sizes(sample: SampledCluster) -> dict[int, int]:
    found: defaultdict[int, int] = defaultdict(int)
    for replicas in sample.sizes.values():
        for broker, size in replicas.items():
            found[broker] += size
    return found


def _broker_values(
    before: SampledCluster | None, sample: SampledCluster
) -> dict[HistorySeries, float]:
    values = {
        HistorySeries("broker", str(broker), "size"): float(size)
        for broker, size in _broker_sizes(sample).items()
    }
    passed_ms = 0 if before is None else sample.at_ms - before.at_ms
    if before is None or passed_ms <= 0:
        return values
    for broker, counters in sample.counters.items():
        earlier = before.counters.get(broker, {})
        for name in COUNTERS:
            if name in counters and name in earlier and counters[name] >= earlier[name]:
                rate = (counters[name] - earlier[name]) * 1000 / passed_ms
                values[HistorySeries("broker", str(broker), name)] = rate
    for name in COUNTERS[1:]:  # records are counted by their offsets
        rates = [value for series, value in values.items() if series.what == name]
        if rates:
            values[HistorySeries("cluster", "", name)] = sum(rates)
    return values


def _most(rows: Mapping[str, N], count: int) -> list[tuple[str, N]]:
    """Return the rows with the largest first number, then second one."""

    def key(row: tuple[str, N]) -> tuple[float, ...]:
        return tuple(-1.0 if number is None else float(number) for number in row[1][:2])

    return nlargest(count, rows.items(), key=key)
