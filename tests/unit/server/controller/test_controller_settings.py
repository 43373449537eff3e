"""The settings of elections, balance and shutdown: Kafka's keys and defaults, and who gets them."""

from __future__ import annotations

import pytest

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.node import config_views as node_config

NEEDED = {"zookeeper.connect": "z:1"}


def parsed(**settings: object) -> Config:
    given = {key.replace("_", "."): str(value) for key, value in settings.items()}
    return BROKER_CONFIG.parse(NEEDED | given)


@pytest.mark.mission("CFG-2")
def test_kafkas_keys_and_defaults() -> None:
    controller = node_config.controller(parsed(), 1, "PLAINTEXT")
    assert controller.auto_leader_rebalance_enable
    assert not controller.unclean_leader_election_enable
    leaving = node_config.controlled_shutdown(parsed(), "PLAINTEXT")
    assert leaving.enable
    assert (leaving.max_retries, leaving.retry_backoff_ms) == (3, 5_000)


@pytest.mark.mission("CFG-2")
def test_settings_reach_the_controller_and_the_controlled_shutdown() -> None:
    config = parsed(
        auto_leader_rebalance_enable="false",
        unclean_leader_election_enable="true",
        controlled_shutdown_enable="false",
        controlled_shutdown_max_retries=7,
        controlled_shutdown_retry_backoff_ms=10,
    )
    controller = node_config.controller(config, 1, "PLAINTEXT")
    assert not controller.auto_leader_rebalance_enable
    assert controller.unclean_leader_election_enable
    leaving = node_config.controlled_shutdown(config, "PLAINTEXT")
    assert not leaving.enable
    assert (leaving.max_retries, leaving.retry_backoff_ms) == (7, 10)


@pytest.mark.mission("CFG-3")
def test_imbalance_and_session_time_outs() -> None:
    controller = node_config.controller(parsed(), 1, "PLAINTEXT")
    assert controller.leader_imbalance_check_interval_seconds == 300
    assert controller.leader_imbalance_per_broker_percentage == 10
    assert controller.zookeeper_session_timeout_ms == 18_000
    assert node_config.zookeeper(parsed()).session_timeout_ms == 18_000
    config = parsed(
        leader_imbalance_check_interval_seconds=2,
        leader_imbalance_per_broker_percentage=0,
        zookeeper_session_timeout_ms=6_000,
    )
    controller = node_config.controller(config, 1, "PLAINTEXT")
    assert controller.leader_imbalance_check_interval_seconds == 2
    assert controller.leader_imbalance_per_broker_percentage == 0
    assert node_config.zookeeper(config).session_timeout_ms == 6_000


@pytest.mark.mission("CFG-3")
@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_an_invalid_interval_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"leader\.imbalance\.check\.interval\.seconds"):
        parsed(leader_imbalance_check_interval_seconds=value)
