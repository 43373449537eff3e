"""The controller's decision on updates of finalized features."""

from __future__ import annotations

import re

import pytest

from minikafka.core.controller.feature_updates import FeatureUpdate, UpgradeType, decide

pytestmark = pytest.mark.mission("MIX-5")

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (FeatureUpdate("", 1, UP), "can not be empty"),
        (FeatureUpdate("a", 1, UpgradeType.UNKNOWN), "unknown upgrade type"),
        (FeatureUpdate("b", 0, SAFE), "non-existing finalized feature"),
        (FeatureUpdate("a", 0, UP), "less than 1 without setting the SAFE"),
        (FeatureUpdate("a", 3, UP), "Can not upgrade .* to the same value"),
        (FeatureUpdate("a", 3, SAFE), "Can not downgrade .* to the same value"),
        (FeatureUpdate("a", 2, UP), "Can not downgrade finalized feature from"),
        (FeatureUpdate("a", 2, UNSAFE), "Can not downgrade finalized feature from"),
        (FeatureUpdate("a", 4, SAFE), "can not be greater"),
        (FeatureUpdate("a", 4, UP), "not supported"),
        (FeatureUpdate("a", 2, SAFE), "not supported"),
        (FeatureUpdate("b", 1, UP), "not supported"),
    ],
)
def test_no_feature_is_supported(update: FeatureUpdate, reason: str) -> None:
    decision = decide({"a": 3}, [update])
    refused = decision.refusals[update.feature]
    assert refused is not None
    assert re.search(reason, refused), refused
    assert decision.target == {"a": 3}


def test_a_feature_of_another_release_can_be_deleted() -> None:
    decision = decide({"a": 3, "b": 1}, [FeatureUpdate("a", 0, SAFE), FeatureUpdate("b", 2, UP)])
    assert decision.target == {"b": 1}
    assert decision.refusals["a"] is None
    assert decision.refusals["b"] is not None
