"""The verb `produce`: lines of standard input become records."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from minikafka.cli.client_properties import with_properties
from minikafka.cli.connect import add_bootstrap_argument, client_config, pairs, run_client
from minikafka.cli.record_text import (
    READER_PROPERTIES,
    OutgoingRecord,
    check_properties,
    parse_json_line,
    parse_line,
)
from minikafka.client.producer import Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.ports import World
from minikafka.protocol.records.compression import Compression

ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}
UNSETTLED_LINES = 10_000  # read ahead of the slowest acknowledgement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, help="send everything there")
    parser.add_argument("--acks", choices=ACKS, default="all")
    codecs = [codec.name.lower() for codec in Compression]
    parser.add_argument("--compression-codec", choices=codecs, default="none")
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--sync", action="store_true", help="one record after the other")
    parser.add_argument(
        "--json", action="store_true", help="lines are objects as consume --json prints them"
    )
    parser.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="how lines are read: " + ", ".join(READER_PROPERTIES),
    )
    parser.add_argument(
        "--producer-property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of the producer, such as batch.size=65536",
    )


def run(args: argparse.Namespace) -> int:
    properties = pairs(args.property, "--property")
    check_properties(properties, READER_PROPERTIES)
    config, producer_config = with_properties(
        pairs(args.producer_property, "--producer-property"),
        client_config(args),
        ProducerConfig(
            acks=ACKS[args.acks],
            compression=Compression[args.compression_codec.upper()],
            linger_ms=0 if args.sync else args.linger_ms,
        ),
    )
    read = parse_json_line if args.json else partial(parse_line, properties=properties)

    async def work(world: World) -> int:
        async with Producer(world, config, producer_config) as producer:
            await send_lines(producer, args.topic, args.partition, read, args.sync)
        return 0

    return run_client(work)


async def send_lines(
    producer: Producer,
    topic: str,
    partition: int | None,
    read: Callable[[bytes], OutgoingRecord],
    one_by_one: bool = False,
) -> None:
    """Every line is sent; the first one that cannot be is raised once all are settled."""
    loop = asyncio.get_running_loop()
    lines = iter(sys.stdin.buffer)
    unsettled: list[asyncio.Future[RecordMetadata]] = []
    while chunk := await loop.run_in_executor(None, read_some, sys.stdin.buffer, lines):
        for line in chunk:
            record = read(line)
            promise = await producer.send(
                topic,
                record.value,
                record.key,
                partition=record.partition if partition is None else partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            unsettled.append(promise)
            if one_by_one:
                await promise
        if len(unsettled) >= UNSETTLED_LINES:
            await asyncio.gather(*unsettled)
            unsettled.clear()
    await producer.flush()
    await asyncio.gather(*unsettled)


def read_some(stream: BinaryIO, lines: Iterator[bytes]) -> list[bytes]:
    """The next line, and with it those that are there already; empty at the end."""
    first = next(lines, None)
    if first is None:
        return []
    found = [first]
    while len(found) < 1000 and not stream_is_idle(stream):
        line = next(lines, None)
        if line is None:
            break
        found.append(line)
    return found


def stream_is_idle(stream: BinaryIO) -> bool:
    """Whether reading on might wait for a person: nothing is buffered."""
    peek = getattr(stream, "peek", None)
    return stream.isatty() or peek is None or b"\n" not in peek(1)
