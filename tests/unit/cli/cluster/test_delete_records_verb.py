"""The file that `delete-records` reads, and the lines it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minikafka.cli import main
from minikafka.cli.cluster.delete_records import facts, line, parse_offsets
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError

TP = TopicPartition("t", 1)


def test_kafkas_file() -> None:
    text = '{"partitions": [{"topic": "t", "partition": 1, "offset": -1}], "version": 1}'
    assert parse_offsets(text) == {TP: -1}
    assert parse_offsets('{"partitions": []}') == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "not JSON"),
        ("[]", "no list"),
        ('{"version": 1}', "no list"),
        ('{"partitions": [], "version": 2}', "version 2"),
        ('{"partitions": [{"topic": "t", "partition": 1}]}', "not topic, partition and offset"),
        ('{"partitions": [{"topic": "t", "partition": "1", "offset": 1}]}', "not topic"),
        ('{"partitions": [7]}', "not topic"),
        ('{"partitions": [{"topic": "t", "partition": 1, "offset": true}]}', "not topic"),
        ('{"partitions": [{"topic": "t", "partition": 2147483648, "offset": 1}]}', "not topic"),
        (
            '{"partitions": [{"topic": "t", "partition": 1, "offset": 9223372036854775808}]}',
            "not topic",
        ),
        (b"\xff\xfe{", "not JSON"),
        (
            json.dumps({"partitions": [{"topic": "t", "partition": 1, "offset": 1}] * 2}),
            "t-1 twice",
        ),
    ],
)
def test_other_files(text: str | bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_offsets(text)


def test_lines_as_kafka_prints_them() -> None:
    error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "too far")
    assert line(TP, 5) == "partition: t-1\tlow_watermark: 5"
    assert line(TP, error) == f"partition: t-1\terror: {error}"
    assert facts(TP, 5) == {"topic": "t", "partition": 1, "low_watermark": 5, "error": None}
    assert facts(TP, error)["error"] == str(error)


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--bootstrap-server", "localhost:1", "--offset-json-file", str(tmp_path / "none")]
    assert main.main(["delete-records", *words]) == 1
    assert capsys.readouterr().err.startswith("minikafka: No such file or directory")
