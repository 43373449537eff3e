"""The settings of the scrubber."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LogScrubberConfig:
    """``log.scrubber.*``, which are ours. With 0 bytes per second the scrubber is off."""

    bytes_per_second: int = 0
    interval_ms: int = 24 * 60 * 60 * 1000
