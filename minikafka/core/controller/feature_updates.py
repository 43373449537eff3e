"""The controller's decision on updates of finalized features (KIP-584).

Brokers of a ZooKeeper cluster support no feature, and neither do ours. So the only update that
succeeds deletes a feature that another release has finalized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from minikafka.kernel.lazy_dataclass import dataclass


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


@dataclass(frozen=True, slots=True)
class FeatureDecision:
    """The features to be finalized, and each update's reason for a refusal; None if it is valid."""

    target: Mapping[str, int]
    refusals: Mapping[str, str | None]


def decide(finalized: Mapping[str, int], updates: Sequence[FeatureUpdate]) -> FeatureDecision:
    """Return the features after the valid ones of these updates."""
    refusals = {update.feature: refusal(update, finalized) for update in updates}
    deleted = {feature for feature, reason in refusals.items() if reason is None}
    target = {name: level for name, level in finalized.items() if name not in deleted}
    return FeatureDecision(target, refusals)


def refusal(update: FeatureUpdate, finalized: Mapping[str, int]) -> str | None:
    """Return why the update is invalid, or None. The checks and their order are Kafka's
    (``KafkaController.validateFeatureUpdate``)."""
    existing = finalized.get(update.feature)
    if not update.feature:
        return "Feature name can not be empty."
    if update.upgrade_type is UpgradeType.UNKNOWN:
        return "Received unknown upgrade type."
    if update.is_deletion:
        return None if existing is not None else "Can not delete non-existing finalized feature."
    if update.level < 1:
        return (
            f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE "
            "downgradeType in the request."
        )
    if existing is not None:
        reason = _refused_level(update, existing)
        if reason is not None:
            return reason
    return "Could not apply finalized feature update because the provided feature is not supported."


def _refused_level(update: FeatureUpdate, existing: int) -> str | None:
    safe = update.upgrade_type is UpgradeType.SAFE_DOWNGRADE
    if update.level == existing:
        direction = "downgrade" if safe else "upgrade"
        return (
            f"Can not {direction} a finalized feature from existing versionLevel:{existing} to the "
            "same value."
        )
    if update.level < existing and not safe:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to "
            f"provided versionLevel:{update.level} without setting the downgradeType to SAFE in "
            "the request."
        )
    if update.level > existing and update.upgrade_type is not UpgradeType.UPGRADE:
        return (
            "When the downgradeType is set to SAFE in the request, the provided "
            f"versionLevel:{update.level} can not be greater than existing "
            f"versionLevel:{existing}."
        )
    return None
