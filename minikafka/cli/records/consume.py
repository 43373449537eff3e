"""The verb `consume`: print the records of topics, as kafka-console-consumer does."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from functools import partial

from minikafka.cli.connect import (
    bare_client_config,
    check_answered,
    command_config,
    run_client,
    tell_of_missing_topic,
    with_properties,
)
from minikafka.cli.records.record_text import (
    FORMATTER_PROPERTIES,
    check_properties,
    json_line,
    record_line,
)
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import (
    add_bootstrap_argument,
    add_json_argument,
    add_pairs_argument,
    at_least,
    pairs,
)
from minikafka.client.consumer.consumer import Consumer, ConsumerConfig
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

POLL_MS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser, "--consumer.config")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", help="the topic to read")
    what.add_argument(
        "--include", metavar="PATTERN", help="all topics whose names match; needs --group"
    )
    parser.add_argument("--partition", type=int, help="read this partition only (all)")
    parser.add_argument("--group", help="consumer group to join; offsets are committed")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from-beginning",
        action="store_true",
        help="start at the earliest offset; with --group only where none is committed",
    )
    start.add_argument(
        "--offset", help="start at this offset, earliest or latest; needs --partition"
    )
    parser.add_argument(
        "--max-messages", type=at_least(1), help="stop after this number of records"
    )
    parser.add_argument(
        "--timeout-ms", type=at_least(0), help="stop when no record arrives for this time"
    )
    levels = ["read_uncommitted", "read_committed"]
    parser.add_argument("--isolation-level", choices=levels, default=levels[0])
    add_json_argument(parser, "print one JSON object a line")
    parser.add_argument("--skip-message-on-error", action="store_true", help="skip corrupt records")
    add_pairs_argument(
        parser, "--property", "how records are printed: " + ", ".join(FORMATTER_PROPERTIES)
    )
    add_pairs_argument(
        parser, "--consumer-property", "a setting of the consumer, such as fetch.min.bytes=1000"
    )


def run(args: argparse.Namespace) -> int:
    properties = pairs(args.property, "--property")
    check_properties(properties, FORMATTER_PROPERTIES)
    offset = start_offset(args)
    if args.group is not None and args.partition is not None:
        raise WrongUsage("--partition cannot be used with --group, which assigns the partitions")
    if args.group is None and args.include is not None:
        raise WrongUsage("--include needs --group")
    earliest = args.from_beginning or args.offset == "earliest"
    config, consumer_config = with_properties(
        {
            **({} if args.group is None else {"group.id": args.group}),
            "auto.offset.reset": "earliest" if earliest else "latest",
            "isolation.level": args.isolation_level,
            **command_config(args),
            **pairs(args.consumer_property, "--consumer-property"),
        },
        bare_client_config(args),
        ConsumerConfig(),
    )
    show = json_line if args.json else partial(record_line, properties=properties)

    async def work(world: World) -> int:
        async with Consumer(world, config, consumer_config) as consumer:
            if args.topic is not None:
                tell_of_missing_topic(consumer, args.topic)
            await begin(consumer, args, offset)
            count = await until_stopped(consumer, args, show)
        check_answered(consumer)
        print(f"Processed a total of {count} messages", file=sys.stderr)
        return 0

    # Without a group the topic is looked up once; a group member retries as long as it polls.
    return run_client(work, config.default_api_timeout_ms if args.group is None else None)


async def begin(consumer: Consumer, args: argparse.Namespace, offset: int | None) -> None:
    """Subscribe to or assign the topics that the options name.

    Raises ConfigError for an unknown partition, KafkaError for an unknown topic.
    """
    if args.group is not None:
        consumer.subscribe([args.topic] if args.topic else [], pattern=args.include)
        return
    partitions = await consumer.assign_topics(args.topic)
    if args.partition is None:
        return
    wanted = TopicPartition(args.topic, args.partition)
    if wanted not in partitions:
        raise ConfigError(f"topic {args.topic} has no partition {args.partition}")
    consumer.assign([wanted])
    if offset is not None:
        consumer.seek(wanted, offset)


def start_offset(args: argparse.Namespace) -> int | None:
    """Return the number in ``--offset``; None without it, or for earliest and latest.

    Raises ConfigError for any other word, or without ``--partition``.
    """
    if args.offset is None:
        return None
    if args.partition is None:
        raise WrongUsage("--offset needs --partition")
    if args.offset in ("earliest", "latest"):
        return None
    if not args.offset.isdigit():
        raise WrongUsage(f"--offset needs a number, earliest or latest, not {args.offset}")
    return int(args.offset)


async def until_stopped(
    consumer: Consumer, args: argparse.Namespace, show: Callable[[ConsumerRecord], bytes]
) -> int:
    """Print records until a limit or a signal; return the number of records printed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    count, idle_since = 0, loop.time()
    while not stop.is_set() and (args.max_messages is None or count < args.max_messages):
        left = None if args.max_messages is None else args.max_messages - count
        try:
            records = await consumer.poll(POLL_MS, left)
        except KafkaError as error:
            if not args.skip_message_on_error or error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            await skip(consumer, error)
            continue
        for record in records:
            sys.stdout.buffer.write(show(record))
        sys.stdout.buffer.flush()
        count += len(records)
        if records:
            idle_since = loop.time()
        elif args.timeout_ms is not None and loop.time() - idle_since > args.timeout_ms / 1000:
            break
    return count


async def skip(consumer: Consumer, error: KafkaError) -> None:
    """Print the error and seek past the next offset in the partition that the error names."""
    print(f"minikafka: {error}", file=sys.stderr)
    for tp in consumer.assignment:
        if f"{tp}:" in str(error):
            consumer.seek(tp, await consumer.position(tp) + 1)
