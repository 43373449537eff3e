"""Metrics under Kafka's JMX names: counters, gauges and histograms.

A name is an ObjectName of Kafka, such as ``kafka.server:type=ReplicaManager,name=LeaderCount``,
with tags behind it: ``...,topic=orders``. An MBean of several attributes has one metric for each,
as ``JmxTool`` writes it: ``kafka.server:type=LeaderReplication:byte-rate``. Names in the domains
``minikafka.*`` are not Kafka's. ``core/prometheus`` turns them into the names of Prometheus.
"""

from __future__ import annotations

from collections import Counter as Occurrences
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

# The quantiles of a histogram, and the attributes under which Kafka shows them.
QUANTILES = {
    0.5: "50thPercentile",
    0.75: "75thPercentile",
    0.95: "95thPercentile",
    0.98: "98thPercentile",
    0.99: "99thPercentile",
    0.999: "999thPercentile",
}
PUSHED = "minikafka.clients"  # the domain of what clients have pushed (KIP-714)
WINDOW_MS = 30_000  # how often ``Metrics.rotate`` shall be called


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def mark(self, amount: int = 1) -> None:
        self.value += amount


_SUB_BITS = 3  # buckets for each power of two, as bits: a quantile is at most an eighth too large
_EXACT = 1 << (_SUB_BITS + 1)  # each smaller value has a bucket
_MAX_BITS = 44  # larger values are counted in the last bucket: 2**44 us are 200 days
_NUM_BUCKETS = ((_MAX_BITS - _SUB_BITS) << _SUB_BITS) + (1 << _SUB_BITS)
_NO_VALUES = (0,) * _NUM_BUCKETS
_FOLD_AT = 512


class Histogram:
    """The distribution of a measurement: integers from 0.

    ``record`` appends the value to a list, since it runs for each request; values are put into
    logarithmic buckets many at once. Quantiles and maximum are those of the last one to two windows
    (``rotate``), count and sum those of all time. Shown values are divided by ``scale``: a time
    that is recorded in microseconds and named in milliseconds has the scale 1000. ``pull`` is
    called before values are read: it may record what was measured and not recorded yet.

    A window without values has no buckets: a broker at rest has hundreds of such windows, and they
    would take 3 KB each.
    """

    __slots__ = ("_before", "_buckets", "_count", "_fresh", "_largest", "_pull", "_sum", "scale")

    def __init__(self, scale: int = 1, pull: Callable[[], None] | None = None) -> None:
        self.scale = scale
        self._pull = pull
        self._fresh: list[int] = []
        self._count = 0
        self._sum = 0
        self._buckets: Sequence[int] = _NO_VALUES
        self._before: Sequence[int] = _NO_VALUES
        self._largest = (0, 0)  # of the last window, and of this one

    def record(self, value: int) -> None:
        self._fresh.append(value)
        if len(self._fresh) >= _FOLD_AT:
            self._fold()

    def record_all(self, values: list[int]) -> None:
        self._fresh += values
        self._fold()

    def record_zeros(self, count: int) -> None:
        self._count += count
        self._own_buckets()[0] += count

    @property
    def recorded(self) -> int:
        """How many values were recorded; ``pull`` is not called."""
        return self._count + len(self._fresh)

    @property
    def count(self) -> int:
        self._read()
        return self._count

    @property
    def sum(self) -> float:
        self._read()
        return self._sum / self.scale

    @property
    def mean(self) -> float:
        return self.sum / self._count if self.count else 0.0

    @property
    def max(self) -> float:
        """The largest of the last values, exactly."""
        self._read()
        return max(self._largest) / self.scale

    def quantiles(self, shares: Iterable[float]) -> list[float]:
        """Return the values below which these shares of the last values lie; 0 without values."""
        self._read()
        counts = list(accumulate(a + b for a, b in zip(self._buckets, self._before, strict=True)))
        return [self._quantile(counts, share) for share in shares]

    def _quantile(self, counts: list[int], share: float) -> float:
        total = counts[-1]
        if total == 0:
            return 0.0
        rank = max(1.0, share * total)
        bucket = next(number for number, count in enumerate(counts) if count >= rank)
        return min(_upper_bound(bucket), max(self._largest)) / self.scale

    def rotate(self) -> None:
        """Begin a window, and forget the values before the last one."""
        self._read()
        self._before, self._buckets = self._buckets, _NO_VALUES
        self._largest = (self._largest[1], 0)

    def _own_buckets(self) -> list[int]:
        if not isinstance(self._buckets, list):
            self._buckets = [0] * _NUM_BUCKETS
        return self._buckets

    def _read(self) -> None:
        if self._pull is not None:
            self._pull()
        self._fold()

    def _fold(self) -> None:
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        self._largest = (self._largest[0], max(self._largest[1], *fresh))
        self._count += len(fresh)
        self._sum += sum(fresh)
        buckets = self._own_buckets()
        for value, count in Occurrences(fresh).items():  # microseconds repeat themselves
            buckets[_bucket(value)] += count


def _bucket(value: int) -> int:
    bits = value.bit_length()
    if bits <= _SUB_BITS:
        return value
    if bits > _MAX_BITS:
        return _NUM_BUCKETS - 1
    shift = bits - _SUB_BITS - 1
    return (shift << _SUB_BITS) + (value >> shift)


def _upper_bound(bucket: int) -> int:
    """Return the largest value of a bucket."""
    if bucket < _EXACT:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    return (((bucket & ((1 << _SUB_BITS) - 1)) + (1 << _SUB_BITS) + 1) << shift) - 1


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    """The present value of one metric. ``value`` is None for a histogram."""

    name: str
    kind: MetricKind
    value: float
    histogram: Histogram | None = None


ReadGauge: TypeAlias = Callable[[], float]
ReadFamily: TypeAlias = Callable[[], Iterable[tuple[str, float]]]


class _FamilyOfMetrics(NamedTuple):
    kind: MetricKind
    read: ReadFamily
    of_partitions: bool


def tag_value(text: str) -> str:
    """Escape the characters of a tag's value that separate the parts of an ObjectName."""
    return quote(text, safe="/ ()+@!~*;&$#[]{}|^<>?")


class Metrics:
    """The metrics of one node, by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Histogram | ReadGauge] = {}
        self._families: list[_FamilyOfMetrics] = []

    def counter(self, name: str) -> Counter:
        """Return the counter of that name; the first call creates it."""
        found = self._metrics.setdefault(name, Counter())
        assert isinstance(found, Counter), name
        return found

    def histogram(
        self, name: str, scale: int = 1, pull: Callable[[], None] | None = None
    ) -> Histogram:
        """Return the histogram of that name; the first call creates it."""
        found = self._metrics.get(name)
        if found is None:
            found = self._metrics[name] = Histogram(scale, pull)
        assert isinstance(found, Histogram), name
        return found

    def gauge(self, name: str, read: ReadGauge) -> None:
        """Register a gauge; one of the same name is replaced."""
        self._metrics[name] = read

    def remove(self, name: str) -> None:
        """Remove a metric of something that is gone, if there is one of that name."""
        self._metrics.pop(name, None)

    def family(
        self, read: ReadFamily, kind: MetricKind = MetricKind.GAUGE, of_partitions: bool = False
    ) -> None:
        """Register a function that returns the names and values of metrics which come and go, such
        as those of clients or, ``of_partitions``, of each partition. While they are iterated, other
        tasks may run: an iterator must not depend on a collection that changes."""
        self._families.append(_FamilyOfMetrics(kind, read, of_partitions))

    def samples(self, prefix: str = "", partitions: bool = False) -> Iterator[Sample]:
        """Iterate over the present values of the metrics whose names begin with ``prefix``, with
        those of each partition or without. Other tasks may run between two of them."""
        for name, metric in list(self._metrics.items()):
            if not name.startswith(prefix):
                continue
            if isinstance(metric, Counter):
                yield Sample(name, MetricKind.COUNTER, metric.value)
            elif isinstance(metric, Histogram):
                yield Sample(name, MetricKind.HISTOGRAM, 0.0, metric)
            else:
                yield Sample(name, MetricKind.GAUGE, metric())
        for family in self._families:
            if family.of_partitions and not partitions:
                continue
            for name, value in family.read():
                if name.startswith(prefix):
                    yield Sample(name, family.kind, value)

    def snapshot(self, prefix: str = "", partitions: bool = False) -> dict[str, float]:
        """Return the values of ``samples``, sorted by name. A histogram has an entry for each of
        its attributes, such as ``...:99thPercentile``."""
        values: dict[str, float] = {}
        for sample in self.samples(prefix, partitions):
            if sample.histogram is None:
                values[sample.name] = sample.value
            else:
                values.update(_attributes(sample.name, sample.histogram))
        return dict(sorted(values.items()))

    def rotate(self) -> None:
        """Begin a window of all histograms; call it every ``WINDOW_MS``."""
        for metric in self._metrics.values():
            if isinstance(metric, Histogram):
                metric.rotate()


def _attributes(name: str, histogram: Histogram) -> Iterator[tuple[str, float]]:
    yield f"{name}:Count", histogram.count
    yield f"{name}:Mean", round(histogram.mean, 3)
    yield f"{name}:Max", histogram.max
    for attribute, value in zip(QUANTILES.values(), histogram.quantiles(QUANTILES), strict=True):
        yield f"{name}:{attribute}", value
