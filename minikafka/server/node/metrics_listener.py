"""The metrics listener: what Prometheus reads from a broker.

The text is written in slices, between which requests are served: a broker may have ten thousand
partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import run_in_slices
from minikafka.server.listeners.http_server import BadQuery, HttpText, Query, Route

if TYPE_CHECKING:
    from minikafka.core import prometheus
else:
    prometheus = LazyModule("minikafka.core.prometheus")

PATH = "/metrics"
# With more partitions than these, their series are shown only if they are requested.
MAX_PARTITIONS = 1000


def metrics_routes(metrics: Metrics, num_partitions: Callable[[], int]) -> dict[str, Route]:
    """Return the path of the metrics listener. Its parameters: ``names`` is ``jmx`` or
    ``confluent``, ``partitions`` is 1 or 0: with the series of each partition or without."""

    async def show_metrics(query: Query) -> Any:
        names = _names(query.get("names"))
        partitions = _partitions(query.get("partitions"), num_partitions() <= MAX_PARTITIONS)
        open_metrics = "application/openmetrics-text" in query.accept
        formats = prometheus.TextFormat
        text_format = formats.OPEN_METRICS if open_metrics else formats.PROMETHEUS
        samples = metrics.samples(partitions=partitions)
        steps = prometheus.exposition(samples, names, text_format)
        return HttpText(await run_in_slices(steps), text_format.value)

    return {PATH: show_metrics}


def _names(text: str | None) -> prometheus.Names:
    names = prometheus.Names
    try:
        return names.JMX if text is None else names(text)
    except ValueError:
        raise BadQuery(f"names must be {' or '.join(each.value for each in names)}") from None


def _partitions(text: str | None, by_default: bool) -> bool:
    if text is None:
        return by_default
    if text not in ("0", "1"):
        raise BadQuery("partitions must be 0 or 1")
    return text == "1"
