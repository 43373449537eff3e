"""Metrics by their short names."""

from __future__ import annotations

import re

from minikafka.kernel.metrics import Metrics


def figures(metrics: Metrics, domain: str = "kafka.controller") -> dict[str, float]:
    """Return the values of a domain without the types of their MBeans: ``QueueSize,broker-id=2``,
    ``EventQueueTimeMs:Count``."""
    return {
        re.sub(r"^[\w.]+:type=[\w-]+(,name=)?", "", name): value
        for name, value in metrics.snapshot(f"{domain}:").items()
    }
