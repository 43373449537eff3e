"""The verb `consume`: prints the records of a topic."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from minikafka.cli.connect import add_bootstrap_argument, client_config, pairs, run_client
from minikafka.client.consumer import Consumer, ConsumerConfig
from minikafka.core.client.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import World

PROPERTIES = {
    "print.key", "print.value", "print.offset", "print.partition", "print.timestamp",
    "print.headers", "key.separator", "line.separator", "null.literal",
}  # fmt: skip
POLL_MS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, help="this one only (all)")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--from-beginning", action="store_true", help="the first record there is")
    start.add_argument("--offset", help="a number, earliest or latest; needs --partition")
    parser.add_argument("--max-messages", type=int, help="stop after so many")
    parser.add_argument("--timeout-ms", type=int, help="stop when nothing comes for so long")
    levels = ["read_uncommitted", "read_committed"]
    parser.add_argument("--isolation-level", choices=levels, default=levels[0])
    parser.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=", ".join(sorted(PROPERTIES)),
    )


def run(args: argparse.Namespace) -> int:
    properties = pairs(args.property, "--property")
    if unknown := set(properties) - PROPERTIES:
        raise ConfigError(f"unknown --property {', '.join(sorted(unknown))}")
    offset = start_offset(args)
    config = client_config(args)
    reset = "earliest" if args.from_beginning or args.offset == "earliest" else "latest"
    consumer_config = ConsumerConfig(
        auto_offset_reset="earliest" if reset == "earliest" else "latest",
        isolation_level=args.isolation_level,
    )

    async def work(world: World) -> int:
        async with Consumer(world, config, consumer_config) as consumer:
            partitions = await consumer.assign_topics(args.topic)
            if args.partition is not None:
                wanted = TopicPartition(args.topic, args.partition)
                if wanted not in partitions:
                    raise ConfigError(f"topic {args.topic} has no partition {args.partition}")
                consumer.assign([wanted])
                if offset is not None:
                    consumer.seek(wanted, offset)
            count = await until_stopped(consumer, args, properties)
        print(f"Processed a total of {count} messages", file=sys.stderr)
        return 0

    return run_client(work)


def start_offset(args: argparse.Namespace) -> int | None:
    """The number given by ``--offset``, if it is one. Raises ConfigError."""
    if args.offset is None:
        return None
    if args.partition is None:
        raise ConfigError("--offset needs --partition")
    if args.offset in ("earliest", "latest"):
        return None
    if not args.offset.isdigit():
        raise ConfigError(f"--offset needs a number, earliest or latest, not {args.offset}")
    return int(args.offset)


async def until_stopped(
    consumer: Consumer, args: argparse.Namespace, properties: dict[str, str]
) -> int:
    """Print records until a limit is reached or a signal comes; the number printed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    count, idle_since = 0, loop.time()
    while not stop.is_set() and (args.max_messages is None or count < args.max_messages):
        left = None if args.max_messages is None else args.max_messages - count
        records = await consumer.poll(POLL_MS, left)
        for record in records:
            sys.stdout.buffer.write(line_of(record, properties))
        sys.stdout.buffer.flush()
        count += len(records)
        if records:
            idle_since = loop.time()
        elif args.timeout_ms is not None and loop.time() - idle_since > args.timeout_ms / 1000:
            break
    return count


def line_of(record: ConsumerRecord, properties: dict[str, str]) -> bytes:
    """One record as Kafka's console consumer prints it."""

    def wanted(name: str, default: str = "false") -> bool:
        return properties.get(f"print.{name}", default).lower() == "true"

    null = properties.get("null.literal", "null").encode()
    parts: list[bytes] = []
    if wanted("timestamp"):
        parts.append(b"CreateTime:%d" % record.timestamp)
    if wanted("partition"):
        parts.append(b"Partition:%d" % record.partition)
    if wanted("offset"):
        parts.append(b"Offset:%d" % record.offset)
    if wanted("headers"):
        headers = [
            name.encode(errors="surrogateescape") + b":" + (null if v is None else v)
            for name, v in record.headers
        ]
        parts.append(b",".join(headers) or b"NO_HEADERS")
    if wanted("key"):
        parts.append(null if record.key is None else record.key)
    if wanted("value", "true"):
        parts.append(null if record.value is None else record.value)
    separator = properties.get("key.separator", "\t").encode()
    return separator.join(parts) + properties.get("line.separator", "\n").encode()
