"""The metrics listener: what Prometheus reads from a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.core.metrics.prometheus import Names, TextFormat, exposition
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import run_in_slices
from minikafka.network.http_server import BadQuery, HttpText, Query, Route

PATH = "/metrics"
# With more partitions than these, their series are shown only if they are requested.
MAX_PARTITIONS = 1000
SAMPLES_AT_ONCE = 100  # then others run


def metrics_routes(metrics: Metrics, num_partitions: Callable[[], int]) -> dict[str, Route]:
    """Return the path of the metrics listener. Its parameters: ``names`` is ``jmx`` or
    ``confluent``, ``partitions`` is 1 or 0: with the series of each partition or without."""

    async def scrape(names: Names, partitions: bool, text_format: TextFormat) -> HttpText:
        steps = exposition(metrics.samples(partitions=partitions), names, text_format)
        return HttpText(await run_in_slices(steps, SAMPLES_AT_ONCE), text_format.value)

    def show_metrics(query: Query) -> Any:
        open_metrics = "application/openmetrics-text" in query.accept
        return scrape(
            _names(query.get("names", Names.JMX.value)),
            _partitions(query.get("partitions"), num_partitions() <= MAX_PARTITIONS),
            TextFormat.OPEN_METRICS if open_metrics else TextFormat.PROMETHEUS,
        )

    return {PATH: show_metrics}


def _names(text: str) -> Names:
    try:
        return Names(text)
    except ValueError:
        raise BadQuery(f"names must be {' or '.join(each.value for each in Names)}") from None


def _partitions(text: str | None, by_default: bool) -> bool:
    if text is None:
        return by_default
    if text not in ("0", "1"):
        raise BadQuery("partitions must be 0 or 1")
    return text == "1"
