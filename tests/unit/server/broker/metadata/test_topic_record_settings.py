"""Topic settings of records: times, codecs and formats, by the topic or by the broker."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.log.config import NO_LIMIT, LogConfig
from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG, topic_defaults
from minikafka.protocol.records.compression import Compression
from minikafka.server.broker.metadata.topic_configs import topic_config


def settings(broker: dict[str, str], topic: dict[str, str]) -> LogConfig:
    defaults = topic_defaults(BROKER_CONFIG.parse({"zookeeper.connect": "zk:2181", **broker}))
    parsed = {name: TOPIC_CONFIG.settings[name].parse(text) for name, text in topic.items()}
    return topic_config(defaults | parsed).log


@pytest.mark.parametrize(
    ("broker", "topic", "limits"),
    [
        ({}, {}, (NO_LIMIT, NO_LIMIT)),
        ({}, {"message.timestamp.difference.max.ms": "5"}, (5, 5)),
        ({"log.message.timestamp.difference.max.ms": "5"}, {}, (5, 5)),
        (
            {"log.message.timestamp.difference.max.ms": "5"},
            {"message.timestamp.before.max.ms": "9"},
            (9, 5),
        ),
        ({"log.message.timestamp.after.max.ms": "7"}, {}, (NO_LIMIT, 7)),
    ],
)
def test_the_old_key_of_time_limits_stands_in_for_the_two_new_ones(
    broker: dict[str, str], topic: dict[str, str], limits: tuple[int, int]
) -> None:
    config = settings(broker, topic)
    assert limits == (
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )


def test_codecs_and_levels() -> None:
    config = settings({"compression.lz4.level": "12", "compression.type": "zstd"}, {})
    assert config.target_compression(Compression.GZIP) is Compression.ZSTD
    assert [config.compression_level(codec) for codec in Compression] == [None, -1, None, 12, 3]
    config = settings({"compression.type": "zstd"}, {"compression.type": "producer"})
    assert config.target_compression(Compression.GZIP) is Compression.GZIP
    config = settings({}, {"compression.type": "uncompressed", "compression.gzip.level": "1"})
    assert config.target_compression(Compression.GZIP) is Compression.NONE
    assert config.compression_level(Compression.GZIP) == 1


def test_conversion_may_be_forbidden() -> None:
    assert settings({}, {}).message_downconversion_enable
    assert not settings(
        {"log.message.downconversion.enable": "false"}, {}
    ).message_downconversion_enable
    again = {"message.downconversion.enable": "true"}
    assert settings(
        {"log.message.downconversion.enable": "false"}, again
    ).message_downconversion_enable


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("message.format.version", ["0.8.2", "0.10.0-IV1", "2.8", "3.9-IV0"], ["abc", "0.7", "9"]),
        ("compression.gzip.level", ["-1", "1", "9"], ["0", "10", "-2"]),
    ],
)
def test_topic_settings_accept_only_valid_values(
    name: str, good: list[str], bad: list[str]
) -> None:
    row: Any = TOPIC_CONFIG.settings[name]
    for text in good:
        row.parse(text)
    for text in bad:
        with pytest.raises(ConfigError):
            row.parse(text)


def test_old_files_name_the_protocol_of_brokers() -> None:
    BROKER_CONFIG.parse({"zookeeper.connect": "zk:2181", "inter.broker.protocol.version": "2.8"})
