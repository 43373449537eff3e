"""The cluster features that this release supports (KIP-584), one row each in ``FEATURES``.

A feature switches protocols and record formats that all brokers of a cluster must know. Each broker
lists the levels that it supports in its ``/brokers/ids/<id>``; the controller writes the levels
that are in force, the finalized ones, to ``/feature``. Level 0 means that a feature is off: it is
never written. Kafka's ``Feature`` and ``BrokerFeatures``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
TRANSACTION_VERSION: Final = "transaction.version"
STREAMS_VERSION: Final = "streams.version"


class Levels(NamedTuple):
    """The levels of a feature that a broker supports, both inclusive."""

    lowest: int
    highest: int

    def include(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, its levels, the KIP that defines it, and what it switches on.

    ``releases`` says for the levels 1, 2, ... with which metadata version of Kafka each came. A
    broker supports the feature only if ``group.coordinator.rebalance.protocols`` lists
    ``protocol``, or, if that is None, any protocol but ``classic``."""

    name: str
    levels: Levels
    kip: str
    switches: str
    releases: tuple[str, ...]
    protocol: str | None = None


FEATURES: Final = (
    Feature(
        GROUP_VERSION,
        Levels(0, 1),
        "KIP-848",
        "consumer groups whose coordinator assigns the partitions",
        ("4.0-IV0",),
        "consumer",
    ),
    Feature(
        SHARE_VERSION,
        Levels(0, 1),
        "KIP-932",
        "share groups, whose members share the records of a partition",
        ("4.2-IV0",),
        "share",
    ),
    Feature(
        TRANSACTION_VERSION,
        Levels(0, 2),
        "KIP-890",
        "flexible records of transactions (1), a new producer epoch for each transaction (2)",
        ("4.0-IV2", "4.0-IV2"),
    ),
    Feature(
        STREAMS_VERSION,
        Levels(0, 1),
        "KIP-1071",
        "streams groups, whose coordinator assigns the tasks of Kafka Streams",
        ("4.2-IV1",),
        "streams",
    ),
)

# Kafka's metadata versions (``MetadataVersion``), in order.
METADATA_VERSIONS: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1"),
)


def levels_of_release(version: str) -> Mapping[str, int]:
    """Return the level of each feature in a release of Kafka, such as ``4.0``, ``4.0.1`` or, during
    its development, ``4.0-IV1``. Raises ValueError."""
    name = ".".join(version.split(".")[:2])
    known = {each.partition("-")[0]: each for each in METADATA_VERSIONS}  # the last of each release
    known |= {each: each for each in METADATA_VERSIONS}
    if name not in known:
        supported = ", ".join(METADATA_VERSIONS)
        raise ValueError(f"Unknown release version '{version}'. Supported are: {supported}")
    at = METADATA_VERSIONS.index(known[name])
    return {
        feature.name: sum(METADATA_VERSIONS.index(first) <= at for first in feature.releases)
        for feature in FEATURES
    }


def supported_features(rebalance_protocols: Collection[str]) -> Mapping[str, Levels]:
    """Return the features that a broker with these rebalance protocols supports, by name.

    With ``classic`` alone it supports none, like a broker of Kafka 3.9, which may then join."""
    if set(rebalance_protocols) == {"classic"}:
        return {}
    return {
        feature.name: feature.levels
        for feature in FEATURES
        if feature.protocol is None or feature.protocol in rebalance_protocols
    }


def unsupported_levels(
    finalized: Mapping[str, int], supported: Mapping[str, Levels]
) -> Mapping[str, int]:
    """Return the finalized levels that a broker with these features does not support."""
    return {
        name: level
        for name, level in finalized.items()
        if name not in supported or not supported[name].include(level)
    }


class UpgradeType(IntEnum):
    """Kafka's ``FeatureUpdate.UpgradeType``."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The requested level of a feature. A downgrade to a level below 1 is a deletion."""

    feature: str
    level: int
    upgrade_type: UpgradeType

    @property
    def is_deletion(self) -> bool:
        return self.level < 1 and self.upgrade_type is not UpgradeType.UPGRADE
