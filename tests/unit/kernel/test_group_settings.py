"""The keys of a group, and the limits that a broker sets to them."""

from __future__ import annotations

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.group_limits import check_group, group_values
from minikafka.kernel.group_settings import BROKER_KEYS, GROUP_CONFIG
from minikafka.kernel.settings import BROKER_CONFIG

BROKER = BROKER_CONFIG.parse(
    {"zookeeper.connect": "z:1", "group.share.heartbeat.interval.ms": "6000"}
)


def test_a_key_that_is_not_given_is_the_brokers() -> None:
    values = group_values({"share.session.timeout.ms": "50000"}, BROKER)
    assert values["share.session.timeout.ms"] == 50_000
    assert values["share.heartbeat.interval.ms"] == 6_000
    assert values["share.auto.offset.reset"] == "latest"


def test_the_keys_of_brokers_have_the_same_defaults() -> None:
    for key, of_broker in BROKER_KEYS.items():
        assert GROUP_CONFIG.settings[key].default == BROKER_CONFIG.settings[of_broker].default


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("x", "1", "Unknown group config name: x"),
        ("consumer.session.timeout.ms", "44999", "greater than or equal to group.consumer.min"),
        ("streams.heartbeat.interval.ms", "15001", "less than or equal to group.streams.max"),
        ("share.record.lock.duration.ms", "60001", "less than or equal to group.share.max"),
        ("streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"),
        ("share.isolation.level", "read", "share.isolation.level"),
        ("share.auto.offset.reset", "by_duration:P", "by_duration:PnDTnHnMnS"),
        ("share.auto.offset.reset", "none", "by_duration:PnDTnHnMnS"),
    ],
)
def test_a_value_that_no_group_may_have(key: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_group({key: value}, BROKER)


@pytest.mark.parametrize("value", ["earliest", "by_duration:P1D", "by_duration:PT1H2M3.5S"])
def test_where_a_share_partition_may_start(value: str) -> None:
    check_group({"share.auto.offset.reset": value}, BROKER)


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    wide = {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "6001"}
    broker = BROKER_CONFIG.parse({**BROKER.given, **wide})
    with pytest.raises(ConfigError, match="must be greater than share"):
        check_group({"share.session.timeout.ms": "6000"}, broker)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_times_of_a_broker_that_do_not_go_together(kind: str) -> None:
    for key, value in (
        ("heartbeat.interval.ms", "4999"),
        ("session.timeout.ms", "60001"),
        ("min.heartbeat.interval.ms", "15001"),
    ):
        with pytest.raises(ConfigError, match=f"group.{kind}"):
            BROKER_CONFIG.parse({"zookeeper.connect": "z:1", f"group.{kind}.{key}": value})
