"""The defaults of a topic are Kafka 3.9's, and what follows from a log's settings."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.protocol.records.compression import Compression

NEVER = 9223372036854775807


def test_defaults_are_kafkas() -> None:
    assert asdict(LogConfig()) == {
        "segment_bytes": 1073741824,
        "segment_ms": 604800000,
        "segment_jitter_ms": 0,
        "index_interval_bytes": 4096,
        "index_size_max_bytes": 10485760,
        "max_message_bytes": 1048588,
        "message_timestamp_type": "CreateTime",
        "message_timestamp_before_max_ms": NEVER,
        "message_timestamp_after_max_ms": NEVER,
        "message_downconversion_enable": True,
        "compression_type": "producer",
        "compression_gzip_level": -1,
        "compression_lz4_level": 9,
        "compression_zstd_level": 3,
        "cleanup_policy": "delete",
        "retention_ms": 604800000,
        "retention_bytes": -1,
        "file_delete_delay_ms": 60000,
        "flush_messages": NEVER,
        "flush_ms": NEVER,
        "delete_retention_ms": 86400000,
        "min_cleanable_dirty_ratio": 0.5,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": NEVER,
    }


def test_levels_are_those_of_the_codec() -> None:
    config = LogConfig(compression_gzip_level=1, compression_lz4_level=2, compression_zstd_level=4)
    levels = {codec.name: config.compression_level(codec) for codec in Compression}
    assert levels == {"NONE": None, "GZIP": 1, "SNAPPY": None, "LZ4": 2, "ZSTD": 4}


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        ("", False, False),
    ],
)
def test_policies(policy: str, deletes: bool, compacts: bool) -> None:
    config = replace(LogConfig(), cleanup_policy=policy)
    assert (config.deletes, config.compacts) == (deletes, compacts)
