"""The keys of a client metrics resource (KIP-714): what clients push, how often, which clients."""

from __future__ import annotations

from typing import Final

from minikafka.kernel.config import ConfigDef, ConfigType, Setting

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
DEFAULT_INTERVAL_MS: Final = 5 * 60 * 1000

CLIENT_METRICS_CONFIG: Final = ConfigDef.of(
    (
        Setting(METRICS, ConfigType.LIST, (), "Prefixes of the names of the metrics to push."),
        Setting(
            INTERVAL_MS,
            ConfigType.INT,
            DEFAULT_INTERVAL_MS,
            "Milliseconds between two pushes of a client.",
        ),
        Setting(MATCH, ConfigType.LIST, (), "Which clients push: NAME=REGEX, all of which match."),
    )
)
