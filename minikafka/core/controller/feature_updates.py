"""The controller's decisions on finalized features (KIP-584): updates, and those of a new cluster.

A level may be finalized if the controller and all registered brokers support it. Any finalized
feature may be deleted, also one that another release has finalized and that is unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.kernel.features import FeatureUpdate, Levels, UpgradeType
from minikafka.kernel.lazy_dataclass import dataclass

_NOT_APPLIED = "Could not apply finalized feature update because "


@dataclass(frozen=True, slots=True)
class FeatureSupport:
    """The features that the controller supports, and those of each registered broker, by name."""

    controller: Mapping[str, Levels]
    brokers: Sequence[Mapping[str, Levels]]

    def is_everywhere(self, feature: str, level: int) -> bool:
        """Whether all registered brokers support a level."""
        return all(feature in broker and broker[feature].include(level) for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class FeatureDecision:
    """The features to be finalized, and each update's reason for a refusal; None if it is valid."""

    target: Mapping[str, int]
    refusals: Mapping[str, str | None]

    @property
    def is_whole(self) -> bool:
        """Whether all updates are valid."""
        return all(reason is None for reason in self.refusals.values())


def first_levels(support: FeatureSupport) -> dict[str, int]:
    """Return the levels that the controller of a new cluster finalizes: the highest that it
    supports, of features that all registered brokers support at that level.

    Kafka does not look at the other brokers (``BrokerFeatures.defaultFinalizedFeatures``). Official
    brokers of a ZooKeeper cluster support no feature, and end when they read one in
    ``/feature``."""
    return {
        name: levels.highest
        for name, levels in support.controller.items()
        if levels.highest > 0 and support.is_everywhere(name, levels.highest)
    }


def decide(
    finalized: Mapping[str, int], updates: Sequence[FeatureUpdate], support: FeatureSupport
) -> FeatureDecision:
    """Return the features after the valid ones of these updates. Each names another feature."""
    refusals = {update.feature: refusal(update, finalized, support) for update in updates}
    target = dict(finalized)
    for update in updates:
        if refusals[update.feature] is not None:
            continue
        if update.is_deletion:
            target.pop(update.feature, None)
        else:
            target[update.feature] = update.level
    return FeatureDecision(target, refusals)


def refusal(
    update: FeatureUpdate, finalized: Mapping[str, int], support: FeatureSupport
) -> str | None:
    """Return why the update is invalid, or None. The checks, their order and the words are Kafka's
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
        reason = _refused_step(update, existing)
        if reason is not None:
            return reason
    return _refused_level(update, support)


def _refused_step(update: FeatureUpdate, existing: int) -> str | None:
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


def _refused_level(update: FeatureUpdate, support: FeatureSupport) -> str | None:
    """Return why a level may not be finalized. As in Kafka, a level above the highest supported one
    gets the same words as one below the lowest."""
    levels = support.controller.get(update.feature)
    if levels is None:
        return f"{_NOT_APPLIED}the provided feature is not supported."
    if not levels.include(update.level):
        return (
            f"{_NOT_APPLIED}the provided versionLevel:{update.level} is lower than the supported "
            f"minVersion:{levels.lowest}."
        )
    if not support.is_everywhere(update.feature, update.level):
        return f"{_NOT_APPLIED}brokers were found to have incompatible versions for the feature."
    return None
