"""The table of supported features."""

from __future__ import annotations

import re

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.features import (
    FEATURES,
    GROUP_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    Levels,
    supported_features,
)
from minikafka.kernel.settings import BROKER_CONFIG

PROTOCOLS = "group.coordinator.rebalance.protocols"


def test_each_feature_may_be_off_and_has_one_row() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
    for feature in FEATURES:
        assert feature.levels.include(0)
        assert feature.levels.highest > 0
        assert re.fullmatch(r"KIP-\d+", feature.kip)
        assert feature.switches


def test_levels_are_inclusive() -> None:
    assert [Levels(1, 2).include(level) for level in range(4)] == [False, True, True, False]


def test_consumer_groups_need_their_protocol() -> None:
    assert supported_features(("classic", "consumer"))[GROUP_VERSION] == Levels(0, 1)
    assert GROUP_VERSION not in supported_features(("classic",))


def test_brokers_with_the_classic_protocol_alone_support_no_feature() -> None:
    """They may stand beside brokers of Kafka 3.9, which know none."""
    assert supported_features(("classic", "consumer"))[TRANSACTION_VERSION] == Levels(0, 2)
    assert supported_features(("classic",)) == {}


@pytest.mark.mission("STR-9")
def test_streams_groups_need_their_protocol() -> None:
    assert supported_features(("classic", "streams"))[STREAMS_VERSION] == Levels(0, 1)
    assert STREAMS_VERSION not in supported_features(("classic", "consumer"))


def test_the_protocols_are_those_of_kafka_4_unless_they_are_set() -> None:
    def parsed(**given: str) -> object:
        return BROKER_CONFIG.parse({"zookeeper.connect": "z:1"} | given).values[PROTOCOLS]

    assert parsed() == ("classic", "consumer", "share", "streams")
    assert parsed(**{PROTOCOLS: "classic"}) == ("classic",)
    with pytest.raises(ConfigError, match="Disabling the 'classic' protocol is not supported"):
        parsed(**{PROTOCOLS: "consumer"})
    with pytest.raises(ConfigError, match="must be one of"):
        parsed(**{PROTOCOLS: "classic,other"})
