"""The verb `produce`: lines of standard input become records."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import BinaryIO

from minikafka.cli.connect import add_bootstrap_argument, client_config, pairs, run_client
from minikafka.client.producer import Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.config import ConfigError
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
    parser.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="parse.key=true, key.separator=TEXT (a tab), null.marker=TEXT",
    )


def run(args: argparse.Namespace) -> int:
    properties = pairs(args.property, "--property")
    unknown = set(properties) - {"parse.key", "key.separator", "null.marker"}
    if unknown:
        raise ConfigError(f"unknown --property {', '.join(sorted(unknown))}")
    config = client_config(args)
    producer_config = ProducerConfig(
        acks=ACKS[args.acks],
        compression=Compression[args.compression_codec.upper()],
        linger_ms=args.linger_ms,
    )

    async def work(world: World) -> int:
        async with Producer(world, config, producer_config) as producer:
            await send_lines(producer, args.topic, args.partition, properties)
        return 0

    return run_client(work)


async def send_lines(
    producer: Producer, topic: str, partition: int | None, properties: dict[str, str]
) -> None:
    """Every line is sent; the first one that cannot be is raised once all are settled."""
    loop = asyncio.get_running_loop()
    lines = iter(sys.stdin.buffer)
    unsettled: list[asyncio.Future[RecordMetadata]] = []
    while chunk := await loop.run_in_executor(None, read_some, sys.stdin.buffer, lines):
        for line in chunk:
            key, value = split(line, properties)
            unsettled.append(await producer.send(topic, value, key, partition=partition))
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


def split(line: bytes, properties: dict[str, str]) -> tuple[bytes | None, bytes | None]:
    """Key and value of a line. Raises ConfigError when a key is wanted and none is there."""
    text = line.rstrip(b"\n").removesuffix(b"\r")
    key: bytes | None = None
    value: bytes | None = text
    if properties.get("parse.key", "false").lower() == "true":
        separator = properties.get("key.separator", "\t").encode()
        key, found, value = text.partition(separator)
        if not found:
            raise ConfigError(f"no key separator in line: {text.decode(errors='replace')}")
    marker = properties.get("null.marker")
    if marker is not None and value == marker.encode():
        value = None
    return key, value
