"""The controller's decisions on finalized features."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.controller.feature_updates import (
    FeatureSupport,
    decide,
    first_levels,
)
from minikafka.kernel.features import FeatureUpdate, Levels, UpgradeType

pytestmark = pytest.mark.mission("MIX-5")

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
NONE = FeatureSupport({}, [{}])
# "s" is supported by all, "t" at level 2 by the controller alone; "a" is of another release.
SUPPORTED = FeatureSupport(
    {"s": Levels(1, 4), "t": Levels(0, 2)},
    [{"s": Levels(0, 5), "t": Levels(0, 2)}, {"s": Levels(1, 4), "t": Levels(0, 1)}],
)
FINALIZED = {"a": 3, "s": 3}


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (FeatureUpdate("", 1, UP), "can not be empty"),
        (FeatureUpdate("a", 1, UpgradeType.UNKNOWN), "unknown upgrade type"),
        (FeatureUpdate("b", 0, SAFE), "non-existing finalized feature"),
        (FeatureUpdate("t", 0, SAFE), "non-existing finalized feature"),
        (FeatureUpdate("a", 0, UP), "less than 1 without setting the SAFE"),
        (FeatureUpdate("a", 3, UP), "Can not upgrade .* to the same value"),
        (FeatureUpdate("s", 3, SAFE), "Can not downgrade .* to the same value"),
        (FeatureUpdate("s", 2, UP), "Can not downgrade finalized feature from"),
        (FeatureUpdate("s", 2, UNSAFE), "Can not downgrade finalized feature from"),
        (FeatureUpdate("s", 4, SAFE), "can not be greater"),
        (FeatureUpdate("a", 4, UP), "the provided feature is not supported"),
        (FeatureUpdate("a", 2, SAFE), "the provided feature is not supported"),
        (FeatureUpdate("b", 1, UP), "the provided feature is not supported"),
        (FeatureUpdate("s", 5, UP), "versionLevel:5 is lower than the supported minVersion:1"),
        (FeatureUpdate("t", 2, UP), "brokers were found to have incompatible versions"),
    ],
)
def test_an_update_is_refused_in_the_words_of_kafka(update: FeatureUpdate, reason: str) -> None:
    decision = decide(FINALIZED, [update], SUPPORTED)
    refused = decision.refusals[update.feature]
    assert refused is not None
    assert re.search(reason, refused), refused
    assert decision.target == FINALIZED


@pytest.mark.parametrize(
    ("update", "target"),
    [
        (FeatureUpdate("s", 4, UP), {"a": 3, "s": 4}),
        (FeatureUpdate("s", 2, SAFE), {"a": 3, "s": 2}),
        (FeatureUpdate("s", 0, SAFE), {"a": 3}),
        (FeatureUpdate("s", 0, UNSAFE), {"a": 3}),
        (FeatureUpdate("t", 1, UP), {"a": 3, "s": 3, "t": 1}),
        (FeatureUpdate("t", 1, SAFE), {"a": 3, "s": 3, "t": 1}),
    ],
)
def test_a_level_that_all_support_is_finalized(
    update: FeatureUpdate, target: Mapping[str, int]
) -> None:
    decision = decide(FINALIZED, [update], SUPPORTED)
    assert decision.refusals == {update.feature: None}
    assert decision.target == target


def test_a_feature_of_another_release_can_be_deleted() -> None:
    updates = [FeatureUpdate("a", 0, SAFE), FeatureUpdate("b", 2, UP)]
    decision = decide({"a": 3, "b": 1}, updates, NONE)
    assert decision.target == {"b": 1}
    assert decision.refusals["a"] is None
    assert decision.refusals["b"] is not None


NAMES = st.sampled_from(["", "a", "b", "c"])
LEVELS = st.tuples(st.integers(0, 3), st.integers(1, 4)).map(lambda two: Levels(*sorted(two)))
SUPPORT = st.dictionaries(NAMES.filter(bool), LEVELS)
SUPPORTS = st.builds(FeatureSupport, SUPPORT, st.lists(SUPPORT, max_size=3))
UPDATES = st.lists(
    st.builds(FeatureUpdate, NAMES, st.integers(-1, 5), st.sampled_from(UpgradeType)),
    unique_by=lambda update: update.feature,
)


@given(st.dictionaries(NAMES.filter(bool), st.integers(1, 5)), UPDATES, SUPPORTS)
def test_only_valid_updates_change_levels_and_only_to_what_all_support(
    finalized: dict[str, int], updates: list[FeatureUpdate], support: FeatureSupport
) -> None:
    decision = decide(finalized, updates, support)
    valid = {u.feature: u for u in updates if decision.refusals[u.feature] is None}
    assert decision.is_whole == (valid.keys() == decision.refusals.keys())
    for name in {*finalized, *decision.target, *valid}:
        before, after = finalized.get(name), decision.target.get(name)
        if name not in valid:
            assert after == before
            continue
        update = valid[name]
        assert (after or 0) == max(0, update.level)
        assert after != before
        if after is not None:
            for levels in (support.controller, *support.brokers):
                assert levels[name].lowest <= after <= levels[name].highest
        if before is not None and (after or 0) < before:
            assert update.upgrade_type is not UP
        if before is not None and after is not None and after > before:
            assert update.upgrade_type is UP


@given(SUPPORTS)
def test_a_new_cluster_begins_with_the_highest_levels_that_all_support(
    support: FeatureSupport,
) -> None:
    levels = first_levels(support)
    updates = [FeatureUpdate(name, known.highest, UP) for name, known in support.controller.items()]
    assert levels == decide({}, updates, support).target
