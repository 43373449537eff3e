"""The verb `produce`: send lines of standard input as records, as kafka-console-producer does.

It reads the lines asynchronously, from a file, a pipe or a terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial

from minikafka.cli.connect import (
    TIMEOUT_MS,
    bare_client_config,
    command_config,
    run_client,
    tell_of_missing_topic,
    with_properties,
)
from minikafka.cli.records.record_text import (
    READER_PROPERTIES,
    OutgoingRecord,
    check_properties,
    parse_json_line,
    parse_line,
)
from minikafka.cli.stopping import call_once_when_asked_to_stop
from minikafka.cli.verb_parser import (
    add_bootstrap_argument,
    add_json_argument,
    add_pairs_argument,
    pairs,
)
from minikafka.client.producer.producer import Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.ports import World
from minikafka.protocol.records.compression import Compression

STDIN = 0
READ_BYTES = 1 << 16


class InputLines:
    """Chunks of lines from a file descriptor; iterate once.

    The event loop waits for input: a thread blocked in ``sys.stdin`` could not be stopped.
    """

    def __init__(self, descriptor: int = STDIN) -> None:
        self._descriptor = descriptor
        self._woken = asyncio.Event()
        self._stopped = False
        self.begun = False  # whether there was any input

    def stop(self) -> None:
        """End the iteration. An incomplete line is dropped."""
        self._stopped = True
        self._woken.set()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines available at once, with their newlines; the last line may lack it.

        Raises OSError.
        """
        begun: list[bytes] = []
        while data := await self._read():
            self.begun = True
            *whole, rest = data.split(b"\n")
            if whole:
                whole[0] = b"".join([*begun, whole[0]])
                begun.clear()
                yield [line + b"\n" for line in whole]
            if rest:
                begun.append(rest)
        if begun and not self._stopped:
            yield [b"".join(begun)]

    async def _read(self) -> bytes:
        """Wait for input and return it; empty at the end of input or after ``stop``."""
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._woken.set)
        except PermissionError:  # a regular file: nothing to wait for
            await asyncio.sleep(0)
        else:
            try:
                await self._woken.wait()
            finally:
                loop.remove_reader(self._descriptor)
        if self._stopped:
            return b""
        self._woken.clear()
        return os.read(self._descriptor, READ_BYTES)


ACKS = ("0", "1", "-1", "all")
UNSETTLED_LINES = 10_000  # read ahead of the slowest acknowledgement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser, "--producer.config")
    parser.add_argument("--topic", required=True, help="the topic to write to")
    parser.add_argument("--partition", type=int, help="send all records to this partition")
    parser.add_argument("--acks", choices=ACKS, default="all")
    codecs = [codec.name.lower() for codec in Compression]
    parser.add_argument("--compression-codec", choices=codecs, default="none")
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument(
        "--sync", action="store_true", help="wait for each record's acknowledgement before the next"
    )
    add_json_argument(parser, "lines are objects as consume --json prints them")
    add_pairs_argument(parser, "--property", "how lines are read: " + ", ".join(READER_PROPERTIES))
    add_pairs_argument(
        parser, "--producer-property", "a setting of the producer, such as batch.size=65536"
    )


def run(args: argparse.Namespace) -> int:
    properties = pairs(args.property, "--property")
    check_properties(properties, READER_PROPERTIES)
    config, producer_config = with_properties(
        {
            "acks": args.acks,
            "compression.type": args.compression_codec,
            "linger.ms": "0" if args.sync else str(args.linger_ms),
            **command_config(args),
            **pairs(args.producer_property, "--producer-property"),
        },
        bare_client_config(args),
        ProducerConfig(max_block_ms=TIMEOUT_MS),
    )
    read = parse_json_line if args.json else partial(parse_line, properties=properties)

    async def work(world: World) -> int:
        lines = InputLines()
        async with Producer(world, config, producer_config) as producer:
            call_once_when_asked_to_stop(partial(end_input, lines, producer))
            tell_of_missing_topic(producer, args.topic)
            await send_lines(producer, lines, args.topic, args.partition, read, args.sync)
        return 0

    return run_client(work, producer_config.max_block_ms)


def end_input(lines: InputLines, producer: Producer) -> None:
    """Stop reading after the first Ctrl-C; the lines read so far are still sent.

    If no broker is known to send them to, print how to end at once.
    """
    lines.stop()
    if lines.begun and not producer.session.metadata.view.nodes:
        print("minikafka: no broker responds; press Ctrl-C again to end at once", file=sys.stderr)


async def send_lines(
    producer: Producer,
    lines: AsyncIterable[list[bytes]],
    topic: str,
    partition: int | None,
    read: Callable[[bytes], OutgoingRecord],
    one_by_one: bool = False,
) -> None:
    """Send every line as a record until one cannot be parsed or sent.

    That error is raised after all earlier records are acknowledged or have failed.
    """
    unsettled: list[asyncio.Future[RecordMetadata]] = []
    try:
        async for chunk in lines:
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
    except Exception:
        await producer.flush()
        await asyncio.gather(*unsettled, return_exceptions=True)
        raise
    await producer.flush()
    await asyncio.gather(*unsettled)
