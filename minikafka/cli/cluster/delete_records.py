"""The verb `delete-records`: deletes the oldest records of partitions, up to offsets in a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError

VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--offset-json-file",
        required=True,
        metavar="FILE",
        help='{"partitions": [{"topic": "t", "partition": 0, "offset": 1}], "version": 1}; '
        "offset -1: all records below the high watermark",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    offsets = parse_offsets(Path(args.offset_json_file).read_bytes())
    outcomes = run_admin(config, lambda admin: admin.delete_records(offsets))
    if args.json:
        output.show_json([facts(tp, outcome) for tp, outcome in outcomes.items()])
    else:
        for tp, outcome in outcomes.items():
            print(line(tp, outcome))
    return int(any(isinstance(outcome, KafkaError) for outcome in outcomes.values()))


def parse_offsets(text: str | bytes) -> dict[TopicPartition, int]:
    """Parse the JSON file of kafka-delete-records. Raises ConfigError."""
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the offset file is not JSON: {error}") from None
    rows = data.get("partitions") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise ConfigError('the offset file has no list "partitions"')
    if data.get("version", VERSION) != VERSION:
        raise ConfigError(f"the offset file has version {data['version']}, known is {VERSION}")
    offsets: dict[TopicPartition, int] = {}
    for row in rows:
        match row:
            case {"topic": str(topic), "partition": partition, "offset": offset}:
                fits = is_integer(partition, 32) and is_integer(offset, 64)
            case _:
                fits = False
        if not fits:
            raise ConfigError(f"not topic, partition and offset: {json.dumps(row)}")
        tp = TopicPartition(topic, partition)
        if tp in offsets:
            raise ConfigError(f"the offset file names {tp} twice")
        offsets[tp] = offset
    return offsets


def is_integer(value: Any, bits: int) -> bool:
    """Return whether a JSON value is a signed integer of at most ``bits`` bits.

    ``true`` is not, though it is an int in Python.
    """
    return type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def line(topic_partition: TopicPartition, outcome: int | KafkaError) -> str:
    """Format the result as kafka-delete-records does."""
    if isinstance(outcome, KafkaError):
        return f"partition: {topic_partition}\terror: {outcome}"
    return f"partition: {topic_partition}\tlow_watermark: {outcome}"


def facts(topic_partition: TopicPartition, outcome: int | KafkaError) -> dict[str, Any]:
    failed = isinstance(outcome, KafkaError)
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "low_watermark": None if failed else outcome,
        "error": str(outcome) if failed else None,
    }
